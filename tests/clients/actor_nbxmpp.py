"""nbxmpp (PyPI), the library of Gajim, as an actor: `agent_nbxmpp.py` runs it, one process a server. It has to run under
Debian's Python, whose PyGObject it needs."""

import asyncio
from xml.sax.saxutils import escape, quoteattr

from actor import Actor
from actor_xmppjs import Agent, HERE
from events import Archived, BlockPush, Copy, LoginFailed, Message, Presence, RosterItem, StanzaError, WAIT
from servers import DOMAIN


class NbxmppAgent(Agent):
    """The process of Debian's Python."""

    async def start(self, _cafile=None):
        self.process = await asyncio.create_subprocess_exec(
            str(HERE / ".venv-nbxmpp" / "bin" / "python"), str(HERE / "agent_nbxmpp.py"), cwd=HERE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 22,
        )
        self._reader = asyncio.ensure_future(self._read())
        return self


class NbxmppActor(Actor):
    """One `nbxmpp.client.Client`."""

    kind = "nbxmpp"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._agent = None
        self._session = None
        #: Messages out of an archive, by the number of their query.
        self._results = {}
        self.disconnected = asyncio.Event()
        #: Whether it has logged in by SASL 2.
        self.sasl2 = None

    def on_report(self, report):
        """One event of the session."""
        if report.get("status") == "disconnected":
            self.disconnected.set()
        if message := report.get("message"):
            archived = message["archived"]
            if archived and archived["query_id"] in self._results:
                self._results[archived["query_id"]].append(Archived(
                    archived["id"], archived["timestamp"], message["from"], message["to"], message["body"]))
            elif message["carbon"]:
                self.log.add(Copy(message["carbon"], message["type"], message["to"], self._message(message)))
            elif message["event"]:
                self.log.add(("event", message["from"], message["event"]))
            else:
                self.log.add(self._message(message))
        elif presence := report.get("presence"):
            self.log.add(Presence(presence["from"], presence["type"], presence["show"], presence["status"],
                                  presence["priority"]))
        elif item := report.get("push"):
            self.log.add(self._item(item))
        elif push := report.get("blocking"):
            for verb in ("block", "unblock"):
                if push[verb]:
                    self.log.add(BlockPush(verb, frozenset(push[verb])))

    @staticmethod
    def _message(message):
        delay = message["delay"]
        return Message(message["from"], message["type"], message["body"], message["id"],
                       None if delay is None else str(delay), message["error"], message["state"])

    @staticmethod
    def _item(item):
        return RosterItem(item["jid"], item["subscription"] or "none", item["ask"] == "subscribe", item["name"],
                          frozenset(item["groups"]))

    async def _order(self, do, **arguments):
        answer = await asyncio.wait_for(self._agent.order(do, session=self._session, **arguments), WAIT)
        if "failed" not in answer:
            return answer["value"]
        if answer.get("condition"):
            raise StanzaError(answer["condition"], answer["type"])
        raise AssertionError(f"{do}: {answer['failed']}")

    async def call(self, module, method, *arguments, **named):
        """A method of one of the library's modules; {"jid": text} is an address."""
        return await self._order("call", module=module, method=method, arguments=arguments, named=named)

    async def do(self, what, **arguments):
        """One of the agent's own commands."""
        return await self._order(what, **arguments)

    async def request(self, xml):
        """An IQ as it stands; the answer as text."""
        return await self._order("request", xml=xml)

    async def _connected(self, do, **arguments):
        answer = await self._order(do, **arguments)
        if answer["outcome"] not in ("bound", "resumed"):
            raise LoginFailed(answer["condition"] or answer["outcome"])
        assert answer["pinned"] == (self.tls != "plain"), "the stream is not in the mode asked for"
        self.jid, self.sasl2 = answer["jid"], answer["sasl2"]
        return answer["outcome"] == "resumed"

    async def connect(self, mechanism=None, register=False):
        assert not register
        agents = self.server.agents
        if self.kind not in agents:
            agents[self.kind] = await NbxmppAgent().start()
        self._agent = agents[self.kind]
        self._session = self._agent.listen(self)
        await self._connected(
            "login", domain=DOMAIN, username=self.account.name, password=self.account.password,
            resource=self.resource, port=self.port, tls=self.tls, mechanism=mechanism, cafile=str(self.server.cafile),
        )

    async def close(self):
        if self._session is not None:
            answer = self._agent.order("close", session=self._session)
            self._session = None
            await asyncio.wait_for(answer, WAIT)
            if self.jid is not None:
                await self.gone()

    def drop(self):
        self._agent.order("drop", session=self._session)

    async def gone(self):
        """The library has seen that its connection has ended."""
        await asyncio.wait_for(self.disconnected.wait(), WAIT)

    async def resume(self):
        await self.gone()
        self.disconnected.clear()
        return await self._connected("again")

    def send(self, xml):
        """A stanza, or an element of the stream, as it stands."""
        self._agent.order("send", session=self._session, xml=xml)

    def send_message(self, to, body, type="chat", id=None):
        names = f" id={quoteattr(id)}" if id else ""
        self.send(f"<message xmlns='jabber:client' to={quoteattr(to)} type='{type}'{names}>"
                  f"<body>{escape(body)}</body></message>")

    def send_presence(self, to=None, type=None, show=None, status=None, priority=None):
        names = (f" to={quoteattr(to)}" if to else "") + (f" type='{type}'" if type else "")
        children = {"show": show, "status": status, "priority": priority}
        inside = "".join(f"<{n}>{escape(str(v))}</{n}>" for n, v in children.items() if v is not None)
        self.send(f"<presence xmlns='jabber:client'{names}>{inside}</presence>")

    async def roster(self):
        answer = await self.call("Roster", "request_roster")
        return {item["jid"]: self._item(item) for item in answer["items"] or ()}

    async def roster_set(self, jid, name=None, groups=()):
        await self.call("Roster", "set_item", {"jid": jid}, name, list(groups))

    async def roster_remove(self, jid):
        await self.call("Roster", "delete_item", {"jid": jid})

    async def ping(self, to=None):
        await self.call("Ping", "ping", {"jid": to or DOMAIN})

    async def carbons(self, on=True, to=None):
        # The library has no request for it; Gajim makes this one.
        verb = "enable" if on else "disable"
        await self.request(f"<iq xmlns='jabber:client' type='set'><{verb} xmlns='urn:xmpp:carbons:2'/></iq>")

    def client_state(self, active):
        # As Gajim does.
        self.send(f"<{'active' if active else 'inactive'} xmlns='urn:xmpp:csi:0'/>")

    async def archive(self, with_jid=None, max=None, before=None, after=None, to=None):
        assert before is None, "the library only asks forwards"
        query = f"query-{len(self._results)}"
        self._results[query] = []
        answer = await self.call("MAM", "make_query", {"jid": to or self.bare}, queryid=query, with_=with_jid,
                                 after=after, max_=max or 70)
        return self._results.pop(query), answer["complete"]

    async def archive_prefs(self, default, always=(), never=()):
        await self.call("MAM", "set_preferences", default, list(always), list(never))
        answer = await self.call("MAM", "request_preferences")
        return answer["default"], set(answer["always"]), set(answer["never"])

    async def blocklist(self):
        return set(await self.call("Blocking", "request_blocking_list"))

    async def block(self, *jids):
        await self.call("Blocking", "block", [{"jid": jid} for jid in jids])

    async def unblock(self, *jids):
        await self.call("Blocking", "unblock", [{"jid": jid} for jid in jids])

    async def disco_info(self, to):
        answer = await self.call("Discovery", "disco_info", {"jid": to})
        return {(i["category"], i["type"]) for i in answer["identities"]}, set(answer["features"])

    async def slot(self, service, name, size, content_type=None):
        answer = await self.call("HTTPUpload", "request_slot", {"jid": service}, name, size,
                                 content_type or "application/octet-stream")
        return answer["put_uri"], answer["headers"], answer["get_uri"]

    async def change_password(self, password):
        await self.call("Register", "change_password", password)

    async def version(self, to):
        return (await self.call("SoftwareVersion", "request_software_version", {"jid": to}))["name"]

    async def wait_event(self, node, since=0):
        """What happens next at this node: (account, event)."""
        found = await self.log.wait(
            f"event of {node}", lambda e: isinstance(e, tuple) and e[0] == "event" and e[2]["node"] == node, since)
        return found[1:]

    async def flush(self):
        await self.ping()
