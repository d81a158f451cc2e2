"""The matrix: driver x TLS mode x client, one server per driver for all tests."""

import asyncio
import inspect

import pytest

from actors import KINDS
from servers import Asking, Certified, External, Keyed, Moved, Prosody, Throng
from world import World

#: Seconds one test may take in all.
TEST_TIMEOUT = 300


def pytest_addoption(parser):
    parser.addoption("--server", choices=["throng", "prosody"], default="throng")
    parser.addoption("--driver", choices=["uring", "epoll"])
    parser.addoption("--tls", choices=["starttls", "direct", "plain", "ws", "wss"])
    parser.addoption("--shards", type=int, default=3, help="threads of Throng")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs(capability): only for clients that have the capability"
    )
    config.addinivalue_line("markers", "secure: only over TLS")


def pytest_generate_tests(metafunc):
    option = metafunc.config.getoption
    names = metafunc.fixturenames
    if "server" in names:
        if option("--server") == "prosody":
            drivers = ["prosody"]
        else:
            drivers = [option("--driver")] if option("--driver") else ["uring", "epoll"]
        metafunc.parametrize("server", drivers, indirect=True, scope="session")
    if "tls" in names:
        modes = [option("--tls")] if option("--tls") else ["plain", "starttls", "direct"]
        if metafunc.definition.get_closest_marker("secure"):
            modes = [m for m in modes if m != "plain"]
        metafunc.parametrize("tls", modes)
    if "kind" in names:
        needs = {m.args[0] for m in metafunc.definition.iter_markers("needs")}
        if option("--tls") in ("ws", "wss"):
            needs.add("websocket")
        metafunc.parametrize(
            "kind", [k for k, actor in KINDS.items() if needs <= actor.capabilities]
        )


@pytest.fixture(scope="session")
def loop():
    """One loop for all tests, so that the node process can serve all of them."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()


def running(server, loop):
    """Runs a server as long as a fixture stands."""
    try:
        server.start()
        yield server
        for agent in server.agents.values():
            loop.run_until_complete(asyncio.wait_for(agent.close(), TEST_TIMEOUT))
        server.stop()
    finally:
        if server.process and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        server.remove()


@pytest.fixture(scope="session")
def server(request, loop):
    """The running server under test."""
    if request.param == "prosody":
        yield from running(Prosody(), loop)
    else:
        yield from running(Throng(request.param, request.config.getoption("--shards")), loop)


@pytest.fixture(scope="session")
def forgetful_server(server, request, loop):
    """A second one that waits a second only for sessions to be resumed."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    shards = request.config.getoption("--shards")
    options = ["--sm-resume-seconds", "1"]
    yield from running(Throng(server.driver, shards, accounts=50, options=options), loop)


@pytest.fixture(scope="session")
def inviting_server(server, request, loop):
    """A second one where accounts are registered by invitation only."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    shards = request.config.getoption("--shards")
    options = ["--registrations-hourly-max", "1000", "--user-invitations", "accounts", "--invitation-page", "https://localhost/i/#{token}"]
    yield from running(Throng(server.driver, shards, accounts=100, options=options, registration="invite"), loop)


@pytest.fixture
def inviting_world(inviting_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(inviting_server, tls, loop, request)


@pytest.fixture(scope="session")
def approving_server(server, request, loop):
    """A second one where accounts that are registered wait for approval."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    shards = request.config.getoption("--shards")
    options = ["--registrations-hourly-max", "1000"]
    yield from running(Throng(server.driver, shards, accounts=50, options=options, registration="approval"), loop)


@pytest.fixture
def approving_world(approving_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(approving_server, tls, loop, request)


@pytest.fixture(scope="session")
def moved_server(server, request, loop):
    """A second one whose accounts have come with keys of SHA-1 only, and that offers all mechanisms."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    shards = request.config.getoption("--shards")
    options = ["--scram-hashes", "sha-1,sha-256,sha-512"]
    yield from running(Moved(server.driver, shards, accounts=50, options=options), loop)


@pytest.fixture
def moved_world(moved_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(moved_server, tls, loop, request)


@pytest.fixture(scope="session")
def certified_server(server, request, loop):
    """A second one that takes certificates of clients."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    yield from running(Certified(server.driver, request.config.getoption("--shards"), accounts=100), loop)


@pytest.fixture
def certified_world(certified_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(certified_server, tls, loop, request)


@pytest.fixture(scope="session")
def external_server(server, request, loop):
    """A second one whose users are kept elsewhere."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    yield from running(External(server.driver, request.config.getoption("--shards"), accounts=400), loop)


@pytest.fixture
def external_world(external_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(external_server, tls, loop, request)


@pytest.fixture(scope="session")
def notifying_server(server, request, loop):
    """A second one with channels at /n/ that all may publish at, which tests may restart."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    shards = request.config.getoption("--shards")
    options = ["--notify", "any", "--notify-publish-open", "--notify-publications-per-second", "0", "--notify-occupancy", "any",
               "--mercure", "--centrifugo", "--nchan", "--notify-wildcards", "any", "--notify-memory", "memory."]
    notifying = Throng(server.driver, shards, accounts=50, options=options)
    notifying.token = notifying.folder / "notify.token"
    notifying.token.write_text("a token of those who delete\n")
    notifying.options += ["--notify-token", str(notifying.token)]
    yield from running(notifying, loop)


@pytest.fixture(scope="session")
def keyed_server(server, request, loop):
    """A second one whose channels need tokens."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    from test_notify_jwt import JWKS
    keyed = Keyed(server.driver, request.config.getoption("--shards"), accounts=50)
    keyed.jwks = JWKS
    yield from running(keyed, loop)


@pytest.fixture(scope="session")
def pushing_server(server, request, loop, tmp_path_factory):
    """A second one that sends pushes to a push service of the tests', which tests may restart."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    from push_service import PushService
    service = PushService(tmp_path_factory.mktemp("push"))
    options = ["--notify", "any", "--notify-publish-open", "--notify-publications-per-second", "0", "--notify-push",
               "--notify-push-contact", "mailto:admin@localhost", "--notify-push-services", f"localhost:{service.port}",
               "--notify-push-private", "--notify-push-authorities", str(service.authority),
               "--notify-push-interval-seconds", "1", "--notify-push-ttl-seconds", "1h", "--notify-push-urgency", "high"]
    throng = Throng(server.driver, request.config.getoption("--shards"), accounts=50, options=options)
    throng.push_service = service
    yield from running(throng, loop)
    service.shutdown()


@pytest.fixture
def pushing_world(pushing_server, loop, request):
    """The clients of one test on that server."""
    yield from new_world(pushing_server, "starttls", loop, request)


@pytest.fixture
def keyed_world(keyed_server, loop, request):
    """The clients of one test on that server."""
    yield from new_world(keyed_server, "starttls", loop, request)


@pytest.fixture(scope="session")
def nchan_reference(server):
    """Debian's nginx with Nchan, for the same clients as this server."""
    if server.driver == "prosody":
        pytest.skip("beside Throng only")
    from nchan import Reference
    reference = Reference()
    try:
        yield reference.start()
    finally:
        reference.stop()


@pytest.fixture(scope="session")
def asking_server(server, request, loop):
    """A second one that asks a web service who may use channels."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    asking = Asking(server.driver, request.config.getoption("--shards"), accounts=50)
    yield from running(asking, loop)
    asking.decider.stop()


@pytest.fixture
def asking_world(asking_server, loop, request):
    """The clients of one test on that server."""
    yield from new_world(asking_server, "starttls", loop, request)


@pytest.fixture
def notifying_world(notifying_server, loop, request):
    """The clients of one test on that server."""
    yield from new_world(notifying_server, "starttls", loop, request)


@pytest.fixture(scope="session")
def restarted_server(server, request, loop):
    """A second one that tests may restart."""
    if server.driver == "prosody":
        yield from running(Prosody(), loop)
    else:
        yield from running(Throng(server.driver, request.config.getoption("--shards"), accounts=100), loop)


@pytest.fixture
def restarted_world(restarted_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(restarted_server, tls, loop, request)


@pytest.fixture
def forgetful_world(forgetful_server, tls, loop, request):
    """The clients of one test on that server."""
    yield from new_world(forgetful_server, tls, loop, request)


@pytest.fixture
def world(server, tls, loop, request):
    """The clients of one test."""
    yield from new_world(server, tls, loop, request)


def new_world(server, tls, loop, request):
    """Makes a world and closes it."""
    world = World(server, tls)
    world.log_since = server.log_size()
    request.node.world = world
    yield world
    loop.run_until_complete(asyncio.wait_for(world.close(), TEST_TIMEOUT))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run coroutine tests on the session's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    loop = pyfuncitem.funcargs.get("loop") or pyfuncitem._request.getfixturevalue("loop")
    arguments = {
        name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames
    }
    loop.run_until_complete(asyncio.wait_for(pyfuncitem.obj(**arguments), TEST_TIMEOUT))
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """On failure print what the clients saw and what the server logged."""
    outcome = yield
    report = outcome.get_result()
    world = getattr(item, "world", None)
    if report.failed and world is not None:
        report.sections.append(("clients", world.describe()))
        report.sections.append(("server log", world.server.log(world.log_since)))
