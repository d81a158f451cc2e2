--
-- PostgreSQL database dump
--

\restrict oN6XvcUUPOB39Uodkmc3n8YyaVgSs5lNicTIoLXdWf4weKyYWlVW4tCXawmkSsk

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: archive; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.archive (
    username text NOT NULL,
    server_host text NOT NULL,
    "timestamp" bigint NOT NULL,
    peer text NOT NULL,
    bare_peer text NOT NULL,
    xml text NOT NULL,
    txt text,
    id integer NOT NULL,
    kind text,
    nick text,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.archive OWNER TO postgres;

--
-- Name: archive_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.archive_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.archive_id_seq OWNER TO postgres;

--
-- Name: archive_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.archive_id_seq OWNED BY public.archive.id;


--
-- Name: archive_prefs; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.archive_prefs (
    username text NOT NULL,
    server_host text NOT NULL,
    def text NOT NULL,
    always text NOT NULL,
    never text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.archive_prefs OWNER TO postgres;

--
-- Name: bosh; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.bosh (
    sid text NOT NULL,
    node text NOT NULL,
    pid text NOT NULL
);


ALTER TABLE public.bosh OWNER TO postgres;

--
-- Name: caps_features; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.caps_features (
    node text NOT NULL,
    subnode text NOT NULL,
    feature text,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.caps_features OWNER TO postgres;

--
-- Name: last; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.last (
    username text NOT NULL,
    server_host text NOT NULL,
    seconds text NOT NULL,
    state text NOT NULL
);


ALTER TABLE public.last OWNER TO postgres;

--
-- Name: mix_channel; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.mix_channel (
    channel text NOT NULL,
    service text NOT NULL,
    username text NOT NULL,
    domain text NOT NULL,
    jid text NOT NULL,
    hidden boolean NOT NULL,
    hmac_key text NOT NULL,
    created_at timestamp without time zone DEFAULT CURRENT_TIMESTAMP NOT NULL
);


ALTER TABLE public.mix_channel OWNER TO postgres;

--
-- Name: mix_pam; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.mix_pam (
    username text NOT NULL,
    server_host text NOT NULL,
    channel text NOT NULL,
    service text NOT NULL,
    id text NOT NULL,
    created_at timestamp without time zone DEFAULT CURRENT_TIMESTAMP NOT NULL
);


ALTER TABLE public.mix_pam OWNER TO postgres;

--
-- Name: mix_participant; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.mix_participant (
    channel text NOT NULL,
    service text NOT NULL,
    username text NOT NULL,
    domain text NOT NULL,
    jid text NOT NULL,
    id text NOT NULL,
    nick text NOT NULL,
    created_at timestamp without time zone DEFAULT CURRENT_TIMESTAMP NOT NULL
);


ALTER TABLE public.mix_participant OWNER TO postgres;

--
-- Name: mix_subscription; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.mix_subscription (
    channel text NOT NULL,
    service text NOT NULL,
    username text NOT NULL,
    domain text NOT NULL,
    node text NOT NULL,
    jid text NOT NULL
);


ALTER TABLE public.mix_subscription OWNER TO postgres;

--
-- Name: motd; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.motd (
    username text NOT NULL,
    server_host text NOT NULL,
    xml text,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.motd OWNER TO postgres;

--
-- Name: mqtt_pub; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.mqtt_pub (
    username text NOT NULL,
    server_host text NOT NULL,
    resource text NOT NULL,
    topic text NOT NULL,
    qos smallint NOT NULL,
    payload bytea NOT NULL,
    payload_format smallint NOT NULL,
    content_type text NOT NULL,
    response_topic text NOT NULL,
    correlation_data bytea NOT NULL,
    user_properties bytea NOT NULL,
    expiry bigint NOT NULL
);


ALTER TABLE public.mqtt_pub OWNER TO postgres;

--
-- Name: muc_online_room; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.muc_online_room (
    name text NOT NULL,
    host text NOT NULL,
    server_host text NOT NULL,
    node text NOT NULL,
    pid text NOT NULL
);


ALTER TABLE public.muc_online_room OWNER TO postgres;

--
-- Name: muc_online_users; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.muc_online_users (
    username text NOT NULL,
    server text NOT NULL,
    resource text NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    server_host text NOT NULL,
    node text NOT NULL
);


ALTER TABLE public.muc_online_users OWNER TO postgres;

--
-- Name: muc_registered; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.muc_registered (
    jid text NOT NULL,
    host text NOT NULL,
    server_host text NOT NULL,
    nick text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.muc_registered OWNER TO postgres;

--
-- Name: muc_room; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.muc_room (
    name text NOT NULL,
    host text NOT NULL,
    server_host text NOT NULL,
    opts text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.muc_room OWNER TO postgres;

--
-- Name: muc_room_subscribers; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.muc_room_subscribers (
    room text NOT NULL,
    host text NOT NULL,
    jid text NOT NULL,
    nick text NOT NULL,
    nodes text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.muc_room_subscribers OWNER TO postgres;

--
-- Name: oauth_client; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.oauth_client (
    client_id text NOT NULL,
    client_name text NOT NULL,
    grant_type text NOT NULL,
    options text NOT NULL
);


ALTER TABLE public.oauth_client OWNER TO postgres;

--
-- Name: oauth_token; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.oauth_token (
    token text NOT NULL,
    jid text NOT NULL,
    scope text NOT NULL,
    expire bigint NOT NULL
);


ALTER TABLE public.oauth_token OWNER TO postgres;

--
-- Name: privacy_default_list; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.privacy_default_list (
    username text NOT NULL,
    server_host text NOT NULL,
    name text NOT NULL
);


ALTER TABLE public.privacy_default_list OWNER TO postgres;

--
-- Name: privacy_list; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.privacy_list (
    username text NOT NULL,
    server_host text NOT NULL,
    name text NOT NULL,
    id integer NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.privacy_list OWNER TO postgres;

--
-- Name: privacy_list_data; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.privacy_list_data (
    id bigint,
    t character(1) NOT NULL,
    value text NOT NULL,
    action character(1) NOT NULL,
    ord numeric NOT NULL,
    match_all boolean NOT NULL,
    match_iq boolean NOT NULL,
    match_message boolean NOT NULL,
    match_presence_in boolean NOT NULL,
    match_presence_out boolean NOT NULL
);


ALTER TABLE public.privacy_list_data OWNER TO postgres;

--
-- Name: privacy_list_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.privacy_list_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.privacy_list_id_seq OWNER TO postgres;

--
-- Name: privacy_list_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.privacy_list_id_seq OWNED BY public.privacy_list.id;


--
-- Name: private_storage; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.private_storage (
    username text NOT NULL,
    server_host text NOT NULL,
    namespace text NOT NULL,
    data text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.private_storage OWNER TO postgres;

--
-- Name: proxy65; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.proxy65 (
    sid text NOT NULL,
    pid_t text NOT NULL,
    pid_i text NOT NULL,
    node_t text NOT NULL,
    node_i text NOT NULL,
    jid_i text NOT NULL
);


ALTER TABLE public.proxy65 OWNER TO postgres;

--
-- Name: pubsub_item; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_item (
    nodeid bigint,
    itemid text NOT NULL,
    publisher text NOT NULL,
    creation character varying(32) NOT NULL,
    modification character varying(32) NOT NULL,
    payload text DEFAULT ''::text NOT NULL
);


ALTER TABLE public.pubsub_item OWNER TO postgres;

--
-- Name: pubsub_node; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_node (
    host text NOT NULL,
    node text NOT NULL,
    parent text DEFAULT ''::text NOT NULL,
    plugin text NOT NULL,
    nodeid integer NOT NULL
);


ALTER TABLE public.pubsub_node OWNER TO postgres;

--
-- Name: pubsub_node_nodeid_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.pubsub_node_nodeid_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.pubsub_node_nodeid_seq OWNER TO postgres;

--
-- Name: pubsub_node_nodeid_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.pubsub_node_nodeid_seq OWNED BY public.pubsub_node.nodeid;


--
-- Name: pubsub_node_option; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_node_option (
    nodeid bigint,
    name text NOT NULL,
    val text NOT NULL
);


ALTER TABLE public.pubsub_node_option OWNER TO postgres;

--
-- Name: pubsub_node_owner; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_node_owner (
    nodeid bigint,
    owner text NOT NULL
);


ALTER TABLE public.pubsub_node_owner OWNER TO postgres;

--
-- Name: pubsub_state; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_state (
    nodeid bigint,
    jid text NOT NULL,
    affiliation character(1),
    subscriptions text DEFAULT ''::text NOT NULL,
    stateid integer NOT NULL
);


ALTER TABLE public.pubsub_state OWNER TO postgres;

--
-- Name: pubsub_state_stateid_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.pubsub_state_stateid_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.pubsub_state_stateid_seq OWNER TO postgres;

--
-- Name: pubsub_state_stateid_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.pubsub_state_stateid_seq OWNED BY public.pubsub_state.stateid;


--
-- Name: pubsub_subscription_opt; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.pubsub_subscription_opt (
    subid text NOT NULL,
    opt_name character varying(32),
    opt_value text NOT NULL
);


ALTER TABLE public.pubsub_subscription_opt OWNER TO postgres;

--
-- Name: push_session; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.push_session (
    username text NOT NULL,
    server_host text NOT NULL,
    "timestamp" bigint NOT NULL,
    service text NOT NULL,
    node text NOT NULL,
    xml text NOT NULL
);


ALTER TABLE public.push_session OWNER TO postgres;

--
-- Name: roster_version; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.roster_version (
    username text NOT NULL,
    server_host text NOT NULL,
    version text NOT NULL
);


ALTER TABLE public.roster_version OWNER TO postgres;

--
-- Name: rostergroups; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.rostergroups (
    username text NOT NULL,
    server_host text NOT NULL,
    jid text NOT NULL,
    grp text NOT NULL
);


ALTER TABLE public.rostergroups OWNER TO postgres;

--
-- Name: rosterusers; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.rosterusers (
    username text NOT NULL,
    server_host text NOT NULL,
    jid text NOT NULL,
    nick text NOT NULL,
    subscription character(1) NOT NULL,
    ask character(1) NOT NULL,
    askmessage text NOT NULL,
    server character(1) NOT NULL,
    subscribe text NOT NULL,
    type text,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.rosterusers OWNER TO postgres;

--
-- Name: route; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.route (
    domain text NOT NULL,
    server_host text NOT NULL,
    node text NOT NULL,
    pid text NOT NULL,
    local_hint text NOT NULL
);


ALTER TABLE public.route OWNER TO postgres;

--
-- Name: sm; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.sm (
    usec bigint NOT NULL,
    pid text NOT NULL,
    node text NOT NULL,
    username text NOT NULL,
    server_host text NOT NULL,
    resource text NOT NULL,
    priority text NOT NULL,
    info text NOT NULL
);


ALTER TABLE public.sm OWNER TO postgres;

--
-- Name: spool; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.spool (
    username text NOT NULL,
    server_host text NOT NULL,
    xml text NOT NULL,
    seq integer NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.spool OWNER TO postgres;

--
-- Name: spool_seq_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.spool_seq_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.spool_seq_seq OWNER TO postgres;

--
-- Name: spool_seq_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.spool_seq_seq OWNED BY public.spool.seq;


--
-- Name: sr_group; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.sr_group (
    name text NOT NULL,
    server_host text NOT NULL,
    opts text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.sr_group OWNER TO postgres;

--
-- Name: sr_user; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.sr_user (
    jid text NOT NULL,
    server_host text NOT NULL,
    grp text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.sr_user OWNER TO postgres;

--
-- Name: users; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.users (
    username text NOT NULL,
    server_host text NOT NULL,
    password text NOT NULL,
    serverkey text DEFAULT ''::text NOT NULL,
    salt text DEFAULT ''::text NOT NULL,
    iterationcount integer DEFAULT 0 NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.users OWNER TO postgres;

--
-- Name: vcard; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.vcard (
    username text NOT NULL,
    server_host text NOT NULL,
    vcard text NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE public.vcard OWNER TO postgres;

--
-- Name: vcard_search; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.vcard_search (
    username text NOT NULL,
    lusername text NOT NULL,
    server_host text NOT NULL,
    fn text NOT NULL,
    lfn text NOT NULL,
    family text NOT NULL,
    lfamily text NOT NULL,
    given text NOT NULL,
    lgiven text NOT NULL,
    middle text NOT NULL,
    lmiddle text NOT NULL,
    nickname text NOT NULL,
    lnickname text NOT NULL,
    bday text NOT NULL,
    lbday text NOT NULL,
    ctry text NOT NULL,
    lctry text NOT NULL,
    locality text NOT NULL,
    llocality text NOT NULL,
    email text NOT NULL,
    lemail text NOT NULL,
    orgname text NOT NULL,
    lorgname text NOT NULL,
    orgunit text NOT NULL,
    lorgunit text NOT NULL
);


ALTER TABLE public.vcard_search OWNER TO postgres;

--
-- Name: archive id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.archive ALTER COLUMN id SET DEFAULT nextval('public.archive_id_seq'::regclass);


--
-- Name: privacy_list id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.privacy_list ALTER COLUMN id SET DEFAULT nextval('public.privacy_list_id_seq'::regclass);


--
-- Name: pubsub_node nodeid; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_node ALTER COLUMN nodeid SET DEFAULT nextval('public.pubsub_node_nodeid_seq'::regclass);


--
-- Name: pubsub_state stateid; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_state ALTER COLUMN stateid SET DEFAULT nextval('public.pubsub_state_stateid_seq'::regclass);


--
-- Name: spool seq; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.spool ALTER COLUMN seq SET DEFAULT nextval('public.spool_seq_seq'::regclass);


--
-- Data for Name: archive; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.archive (username, server_host, "timestamp", peer, bare_peer, xml, txt, id, kind, nick, created_at) FROM stdin;
ball@conference.capulet.example	capulet.example	1795917156906477	juliet@capulet.example/globe	juliet@capulet.example	<message xml:lang='en' to='ball@conference.capulet.example' from='juliet@capulet.example/globe' type='groupchat' id='030164bf5ac24be790e395ccf47f6e7e' xmlns='jabber:client'><subject>A feast &amp; a &lt;mask&gt;</subject></message>		1	groupchat	Jule	2026-11-29 01:52:36.950446
ball@conference.capulet.example	capulet.example	1795917156968999	juliet@capulet.example/globe	juliet@capulet.example	<message xml:lang='en' to='ball@conference.capulet.example' from='juliet@capulet.example/globe' type='groupchat' id='8c1acb582039463abbeb165616423517' xmlns='jabber:client'><body>Good pilgrim</body></message>	Good pilgrim	2	groupchat	Jule	2026-11-29 01:52:37.012926
romeo	montague.example	1795917157366138	juliet@capulet.example	juliet@capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='56ccc10fd705412eb98918c9915f90ca' xmlns='jabber:client'><body>But soft, what light?</body></message>	But soft, what light?	3	chat		2026-11-29 01:52:37.470745
romeo	montague.example	1795917157482380	juliet@capulet.example	juliet@capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='64ccabc9a920464fa30ea32282950cd2' xmlns='jabber:client'><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>	It is the »east« & <Juliet> is the sun	4	chat		2026-11-29 01:52:37.532516
juliet	capulet.example	1795917157482259	romeo@montague.example/globe	romeo@montague.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='56ccc10fd705412eb98918c9915f90ca' xmlns='jabber:client'><body>But soft, what light?</body></message>	But soft, what light?	5	chat		2026-11-29 01:52:37.576973
romeo	montague.example	1795917157538930	juliet@capulet.example	juliet@capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='c428df549db443c8857aa86fc78c0bef' xmlns='jabber:client'><body>Arise 🌞</body></message>	Arise 🌞	6	chat		2026-11-29 01:52:37.586337
juliet	capulet.example	1795917157538793	romeo@montague.example/globe	romeo@montague.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='64ccabc9a920464fa30ea32282950cd2' xmlns='jabber:client'><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>	It is the »east« & <Juliet> is the sun	7	chat		2026-11-29 01:52:37.630511
juliet	capulet.example	1795917157590780	romeo@montague.example/globe	romeo@montague.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='c428df549db443c8857aa86fc78c0bef' xmlns='jabber:client'><body>Arise 🌞</body></message>	Arise 🌞	8	chat		2026-11-29 01:52:37.685723
juliet	capulet.example	1795917157734066	romeo@montague.example	romeo@montague.example	<message xml:lang='en' to='romeo@montague.example' from='juliet@capulet.example/globe' type='chat' id='9354eea200c7431e9226fe45fe9bc30e' xmlns='jabber:client'><body>Ay me</body></message>	Ay me	9	chat		2026-11-29 01:52:37.73438
romeo	montague.example	1795917157746353	juliet@capulet.example/globe	juliet@capulet.example	<message xml:lang='en' to='romeo@montague.example' from='juliet@capulet.example/globe' type='chat' id='9354eea200c7431e9226fe45fe9bc30e' xmlns='jabber:client'><body>Ay me</body></message>	Ay me	10	chat		2026-11-29 01:52:37.794418
romeo	montague.example	1795917158547307	juliet@capulet.example	juliet@capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='e52c76c675814bea97a3509f060195c0' xmlns='jabber:client'><body>Parting is such sweet sorrow</body></message>	Parting is such sweet sorrow	11	chat		2026-11-29 01:52:38.547531
juliet	capulet.example	1795917158548393	romeo@montague.example/globe	romeo@montague.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='e52c76c675814bea97a3509f060195c0' xmlns='jabber:client'><body>Parting is such sweet sorrow</body></message>	Parting is such sweet sorrow	12	chat		2026-11-29 01:52:38.590463
romeo	montague.example	1795917158706294	juliet@capulet.example	juliet@capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='a533d63e70ec4e138d32bf6ea154eb63' xmlns='jabber:client'><body>Good night</body></message>	Good night	13	chat		2026-11-29 01:52:38.70646
juliet	capulet.example	1795917158710298	romeo@montague.example/globe	romeo@montague.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='a533d63e70ec4e138d32bf6ea154eb63' xmlns='jabber:client'><body>Good night</body></message>	Good night	14	chat		2026-11-29 01:52:38.710479
\.


--
-- Data for Name: archive_prefs; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.archive_prefs (username, server_host, def, always, never, created_at) FROM stdin;
\.


--
-- Data for Name: bosh; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.bosh (sid, node, pid) FROM stdin;
\.


--
-- Data for Name: caps_features; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.caps_features (node, subnode, feature, created_at) FROM stdin;
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/disco#info	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	vcard-temp	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/rsm	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	jabber:x:data	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/caps	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/shim	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/shim#SubID	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/nick+notify	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/nick	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/muc	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	urn:xmpp:forward:0	2026-11-29 01:52:30.949717
http://slixmpp.com/ver/1.17.0	yhS9Omca/OFLnlQo0+s2ABjdTaM=	http://jabber.org/protocol/commands	2026-11-29 01:52:30.949717
\.


--
-- Data for Name: last; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.last (username, server_host, seconds, state) FROM stdin;
\.


--
-- Data for Name: mix_channel; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.mix_channel (channel, service, username, domain, jid, hidden, hmac_key, created_at) FROM stdin;
\.


--
-- Data for Name: mix_pam; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.mix_pam (username, server_host, channel, service, id, created_at) FROM stdin;
\.


--
-- Data for Name: mix_participant; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.mix_participant (channel, service, username, domain, jid, id, nick, created_at) FROM stdin;
\.


--
-- Data for Name: mix_subscription; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.mix_subscription (channel, service, username, domain, node, jid) FROM stdin;
\.


--
-- Data for Name: motd; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.motd (username, server_host, xml, created_at) FROM stdin;
\.


--
-- Data for Name: mqtt_pub; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.mqtt_pub (username, server_host, resource, topic, qos, payload, payload_format, content_type, response_topic, correlation_data, user_properties, expiry) FROM stdin;
\.


--
-- Data for Name: muc_online_room; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.muc_online_room (name, host, server_host, node, pid) FROM stdin;
\.


--
-- Data for Name: muc_online_users; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.muc_online_users (username, server, resource, name, host, server_host, node) FROM stdin;
\.


--
-- Data for Name: muc_registered; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.muc_registered (jid, host, server_host, nick, created_at) FROM stdin;
\.


--
-- Data for Name: muc_room; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.muc_room (name, host, server_host, opts, created_at) FROM stdin;
ball	conference.capulet.example	capulet.example	[{title,<<"The ball & more">>},{description,<<"Masks">>},{allow_change_subj,true},{allow_query_users,true},{allow_private_messages,true},{allow_private_messages_from_visitors,anyone},{allow_visitor_status,true},{allow_visitor_nickchange,true},{public,false},{public_list,true},{persistent,true},{moderated,true},{members_by_default,true},{members_only,true},{allow_user_invites,false},{password_protected,true},{captcha_protected,false},{password,<<"rose <water>">>},{anonymous,false},{logging,false},{max_users,200},{allow_voice_requests,true},{allow_subscription,false},{mam,true},{presence_broadcast,[moderator,participant,visitor]},{voice_request_min_interval,1800},{vcard,<<>>},{vcard_xupdate,undefined},{pubsub,<<>>},{enable_hats,false},{lang,<<"en">>},{captcha_whitelist,[]},{affiliations,[{{<<"juliet">>,<<"capulet.example">>,<<>>},{owner,<<>>}},{{<<"nurse">>,<<"capulet.example">>,<<>>},{admin,<<"as admin">>}},{{<<"paris">>,<<"elsewhere.example">>,<<>>},{outcast,<<"as outcast">>}},{{<<"romeo">>,<<"montague.example">>,<<>>},{member,<<"as member">>}}]},{roles,[{{<<"nurse">>,<<"capulet.example">>,<<>>},moderator},{{<<"romeo">>,<<"montague.example">>,<<>>},participant}]},{subject,[{text,<<>>,<<"A feast & a <mask>">>}]},{subject_author,<<"Jule">>},{hats_users,[]},{hibernation_time,undefined}]	1970-01-02 00:00:00
\.


--
-- Data for Name: muc_room_subscribers; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.muc_room_subscribers (room, host, jid, nick, nodes, created_at) FROM stdin;
\.


--
-- Data for Name: oauth_client; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.oauth_client (client_id, client_name, grant_type, options) FROM stdin;
\.


--
-- Data for Name: oauth_token; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.oauth_token (token, jid, scope, expire) FROM stdin;
\.


--
-- Data for Name: privacy_default_list; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.privacy_default_list (username, server_host, name) FROM stdin;
juliet	capulet.example	Blocked contacts
\.


--
-- Data for Name: privacy_list; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.privacy_list (username, server_host, name, id, created_at) FROM stdin;
juliet	capulet.example	Blocked contacts	1	2026-11-29 01:52:34.056875
\.


--
-- Data for Name: privacy_list_data; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.privacy_list_data (id, t, value, action, ord, match_all, match_iq, match_message, match_presence_in, match_presence_out) FROM stdin;
1	j	paris@elsewhere.example	d	0	t	f	f	f	f
\.


--
-- Data for Name: private_storage; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.private_storage (username, server_host, namespace, data, created_at) FROM stdin;
juliet	capulet.example	urn:example:house	<balcony xmlns='urn:example:house'><door open='yes'>left &amp; right</door></balcony>	2026-11-29 01:52:33.850282
\.


--
-- Data for Name: proxy65; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.proxy65 (sid, pid_t, pid_i, node_t, node_i, jid_i) FROM stdin;
\.


--
-- Data for Name: pubsub_item; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_item (nodeid, itemid, publisher, creation, modification, payload) FROM stdin;
1	current	juliet@capulet.example/globe	001795:917154:947113	001795:917154:947113	<nick xmlns='http://jabber.org/protocol/nick'>Jule</nick>
2	ball@rooms.example	juliet@capulet.example/globe	001795:917155:859994	001795:917155:859994	<conference xmlns='urn:xmpp:bookmarks:1' name='ball' autojoin='true'><nick>J</nick></conference>
2	crypt@rooms.example	juliet@capulet.example/globe	001795:917156:267060	001795:917156:267060	<conference xmlns='urn:xmpp:bookmarks:1' name='cryp' autojoin='true'><nick>J</nick></conference>
\.


--
-- Data for Name: pubsub_node; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_node (host, node, parent, plugin, nodeid) FROM stdin;
juliet@capulet.example	http://jabber.org/protocol/nick		pep	1
juliet@capulet.example	urn:xmpp:bookmarks:1		pep	2
\.


--
-- Data for Name: pubsub_node_option; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_node_option (nodeid, name, val) FROM stdin;
1	access_model	open
1	deliver_notifications	true
1	deliver_payloads	true
1	itemreply	none
1	max_items	1
1	max_payload_size	250000
1	notification_type	headline
1	notify_config	false
1	notify_delete	false
1	notify_retract	false
1	persist_items	true
1	presence_based_delivery	true
1	publish_model	publishers
1	purge_offline	false
1	roster_groups_allowed	[]
1	rsm	true
1	send_last_published_item	on_sub_and_presence
1	sql	true
1	subscribe	true
2	access_model	whitelist
2	deliver_notifications	true
2	deliver_payloads	true
2	itemreply	none
2	max_items	20
2	max_payload_size	250000
2	notification_type	headline
2	notify_config	false
2	notify_delete	false
2	notify_retract	false
2	persist_items	true
2	presence_based_delivery	true
2	publish_model	publishers
2	purge_offline	false
2	roster_groups_allowed	[]
2	rsm	true
2	send_last_published_item	on_sub_and_presence
2	sql	true
2	subscribe	true
\.


--
-- Data for Name: pubsub_node_owner; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_node_owner (nodeid, owner) FROM stdin;
\.


--
-- Data for Name: pubsub_state; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_state (nodeid, jid, affiliation, subscriptions, stateid) FROM stdin;
1	juliet@capulet.example	o		1
2	juliet@capulet.example	o		2
\.


--
-- Data for Name: pubsub_subscription_opt; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.pubsub_subscription_opt (subid, opt_name, opt_value) FROM stdin;
\.


--
-- Data for Name: push_session; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.push_session (username, server_host, "timestamp", service, node, xml) FROM stdin;
\.


--
-- Data for Name: roster_version; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.roster_version (username, server_host, version) FROM stdin;
\.


--
-- Data for Name: rostergroups; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.rostergroups (username, server_host, jid, grp) FROM stdin;
romeo	montague.example	juliet@capulet.example	Love
romeo	montague.example	juliet@capulet.example	Verona
juliet	capulet.example	romeo@montague.example	Montagues
mercutio	montague.example	tybalt@elsewhere.example	Foes
\.


--
-- Data for Name: rosterusers; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.rosterusers (username, server_host, jid, nick, subscription, ask, askmessage, server, subscribe, type, created_at) FROM stdin;
romeo	montague.example	juliet@capulet.example	Juliet & her balcony	B	N		N		item	2026-11-29 01:52:31.593399
juliet	capulet.example	romeo@montague.example	Rómeo	B	N		N		item	2026-11-29 01:52:31.698234
mercutio	montague.example	juliet@capulet.example		N	O		N		item	2026-11-29 01:52:33.5101
juliet	capulet.example	mercutio@montague.example		N	I		N		item	2026-11-29 01:52:33.512095
mercutio	montague.example	tybalt@elsewhere.example	King of Cats	N	N		N		item	2026-11-29 01:52:33.563447
\.


--
-- Data for Name: route; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.route (domain, server_host, node, pid, local_hint) FROM stdin;
\.


--
-- Data for Name: sm; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.sm (usec, pid, node, username, server_host, resource, priority, info) FROM stdin;
\.


--
-- Data for Name: spool; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.spool (username, server_host, xml, seq, created_at) FROM stdin;
juliet	capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='e52c76c675814bea97a3509f060195c0' xmlns='jabber:client'><archived by='juliet@capulet.example' id='1795917158548393' xmlns='urn:xmpp:mam:tmp'/><stanza-id by='juliet@capulet.example' id='1795917158548393' xmlns='urn:xmpp:sid:0'/><delay from='capulet.example' stamp='2026-11-29T01:52:38.653301Z' xmlns='urn:xmpp:delay'>Offline Storage</delay><body>Parting is such sweet sorrow</body></message>	1	2026-11-29 01:52:38.702602
juliet	capulet.example	<message xml:lang='en' to='juliet@capulet.example' from='romeo@montague.example/globe' type='chat' id='a533d63e70ec4e138d32bf6ea154eb63' xmlns='jabber:client'><archived by='juliet@capulet.example' id='1795917158710298' xmlns='urn:xmpp:mam:tmp'/><stanza-id by='juliet@capulet.example' id='1795917158710298' xmlns='urn:xmpp:sid:0'/><delay from='capulet.example' stamp='2026-11-29T01:52:38.711543Z' xmlns='urn:xmpp:delay'>Offline Storage</delay><body>Good night</body></message>	2	2026-11-29 01:52:38.754499
\.


--
-- Data for Name: sr_group; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.sr_group (name, server_host, opts, created_at) FROM stdin;
\.


--
-- Data for Name: sr_user; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.sr_user (jid, server_host, grp, created_at) FROM stdin;
\.


--
-- Data for Name: users; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.users (username, server_host, password, serverkey, salt, iterationcount, created_at) FROM stdin;
romeo	montague.example	sFftSWzMc84ZcJUycan8kalMm74=	il51wiA9tsZGPczSaD2GgEv55Bk=	kDeQJsgRnZXBwEcRJE4UIw==	4096	2026-11-29 01:52:29.858084
juliet	capulet.example	+VLd5v4LmRQuJeS8yJLtrkJbwiA=	WAVzOu5l3rFm5OdQly9tghgNnB0=	4iVgDGAiAM8jvoV9IqcXtQ==	4096	2026-11-29 01:52:30.003993
nurse	capulet.example	P/Wyu1cKPjVtZHfDu8Ls7edcWSc=	7RtYQ744uvWwiipsOeOhjuH31O4=	3VmWSvIR4ptzryPU+tAbiQ==	4096	2026-11-29 01:52:30.14655
mercutio	montague.example	VGInyyNH6YoqeatK34MarG9OK1k=	OdelP6tB6nlunx+GmT4QTO9f3ic=	yYirhYK27Lnkl/Rx5K4+7Q==	4096	2026-11-29 01:52:30.282084
\.


--
-- Data for Name: vcard; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.vcard (username, server_host, vcard, created_at) FROM stdin;
juliet	capulet.example	<vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN><NICKNAME>Jule</NICKNAME></vCard>	2026-11-29 01:52:33.959569
\.


--
-- Data for Name: vcard_search; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.vcard_search (username, lusername, server_host, fn, lfn, family, lfamily, given, lgiven, middle, lmiddle, nickname, lnickname, bday, lbday, ctry, lctry, locality, llocality, email, lemail, orgname, lorgname, orgunit, lorgunit) FROM stdin;
juliet	juliet	capulet.example	Juliet Capulet	juliet capulet							Jule	jule												
\.


--
-- Name: archive_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.archive_id_seq', 14, true);


--
-- Name: privacy_list_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.privacy_list_id_seq', 1, true);


--
-- Name: pubsub_node_nodeid_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.pubsub_node_nodeid_seq', 2, true);


--
-- Name: pubsub_state_stateid_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.pubsub_state_stateid_seq', 2, true);


--
-- Name: spool_seq_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.spool_seq_seq', 2, true);


--
-- Name: archive_prefs archive_prefs_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.archive_prefs
    ADD CONSTRAINT archive_prefs_pkey PRIMARY KEY (server_host, username);


--
-- Name: last last_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.last
    ADD CONSTRAINT last_pkey PRIMARY KEY (server_host, username);


--
-- Name: motd motd_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.motd
    ADD CONSTRAINT motd_pkey PRIMARY KEY (server_host, username);


--
-- Name: oauth_client oauth_client_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.oauth_client
    ADD CONSTRAINT oauth_client_pkey PRIMARY KEY (client_id);


--
-- Name: privacy_default_list privacy_default_list_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.privacy_default_list
    ADD CONSTRAINT privacy_default_list_pkey PRIMARY KEY (server_host, username);


--
-- Name: privacy_list privacy_list_id_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.privacy_list
    ADD CONSTRAINT privacy_list_id_key UNIQUE (id);


--
-- Name: private_storage private_storage_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.private_storage
    ADD CONSTRAINT private_storage_pkey PRIMARY KEY (server_host, username, namespace);


--
-- Name: pubsub_node pubsub_node_nodeid_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_node
    ADD CONSTRAINT pubsub_node_nodeid_key UNIQUE (nodeid);


--
-- Name: pubsub_state pubsub_state_stateid_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_state
    ADD CONSTRAINT pubsub_state_stateid_key UNIQUE (stateid);


--
-- Name: push_session push_session_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.push_session
    ADD CONSTRAINT push_session_pkey PRIMARY KEY (server_host, username, "timestamp");


--
-- Name: roster_version roster_version_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.roster_version
    ADD CONSTRAINT roster_version_pkey PRIMARY KEY (server_host, username);


--
-- Name: sm sm_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.sm
    ADD CONSTRAINT sm_pkey PRIMARY KEY (usec, pid);


--
-- Name: sr_group sr_group_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.sr_group
    ADD CONSTRAINT sr_group_pkey PRIMARY KEY (server_host, name);


--
-- Name: sr_user sr_user_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.sr_user
    ADD CONSTRAINT sr_user_pkey PRIMARY KEY (server_host, jid, grp);


--
-- Name: users users_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (server_host, username);


--
-- Name: vcard vcard_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.vcard
    ADD CONSTRAINT vcard_pkey PRIMARY KEY (server_host, username);


--
-- Name: vcard_search vcard_search_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.vcard_search
    ADD CONSTRAINT vcard_search_pkey PRIMARY KEY (server_host, lusername);


--
-- Name: i_archive_sh_timestamp; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_archive_sh_timestamp ON public.archive USING btree (server_host, "timestamp");


--
-- Name: i_archive_sh_username_bare_peer; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_archive_sh_username_bare_peer ON public.archive USING btree (server_host, username, bare_peer);


--
-- Name: i_archive_sh_username_peer; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_archive_sh_username_peer ON public.archive USING btree (server_host, username, peer);


--
-- Name: i_archive_sh_username_timestamp; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_archive_sh_username_timestamp ON public.archive USING btree (server_host, username, "timestamp");


--
-- Name: i_bosh_sid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_bosh_sid ON public.bosh USING btree (sid);


--
-- Name: i_caps_features_node_subnode; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_caps_features_node_subnode ON public.caps_features USING btree (node, subnode);


--
-- Name: i_mix_channel; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_mix_channel ON public.mix_channel USING btree (channel, service);


--
-- Name: i_mix_channel_serv; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_channel_serv ON public.mix_channel USING btree (service);


--
-- Name: i_mix_pam; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_mix_pam ON public.mix_pam USING btree (username, server_host, channel, service);


--
-- Name: i_mix_pam_us; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_pam_us ON public.mix_pam USING btree (username, server_host);


--
-- Name: i_mix_participant; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_mix_participant ON public.mix_participant USING btree (channel, service, username, domain);


--
-- Name: i_mix_participant_chan_serv; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_participant_chan_serv ON public.mix_participant USING btree (channel, service);


--
-- Name: i_mix_subscription; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_mix_subscription ON public.mix_subscription USING btree (channel, service, username, domain, node);


--
-- Name: i_mix_subscription_chan_serv; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_subscription_chan_serv ON public.mix_subscription USING btree (channel, service);


--
-- Name: i_mix_subscription_chan_serv_node; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_subscription_chan_serv_node ON public.mix_subscription USING btree (channel, service, node);


--
-- Name: i_mix_subscription_chan_serv_ud; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_mix_subscription_chan_serv_ud ON public.mix_subscription USING btree (channel, service, username, domain);


--
-- Name: i_mqtt_topic_server; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_mqtt_topic_server ON public.mqtt_pub USING btree (topic, server_host);


--
-- Name: i_muc_online_room_name_host; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_muc_online_room_name_host ON public.muc_online_room USING btree (name, host);


--
-- Name: i_muc_online_users; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_muc_online_users ON public.muc_online_users USING btree (username, server, resource, name, host);


--
-- Name: i_muc_online_users_us; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_muc_online_users_us ON public.muc_online_users USING btree (username, server);


--
-- Name: i_muc_registered_jid_host; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_muc_registered_jid_host ON public.muc_registered USING btree (jid, host);


--
-- Name: i_muc_registered_nick; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_muc_registered_nick ON public.muc_registered USING btree (nick);


--
-- Name: i_muc_room_host_created_at; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_muc_room_host_created_at ON public.muc_room USING btree (host, created_at);


--
-- Name: i_muc_room_name_host; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_muc_room_name_host ON public.muc_room USING btree (name, host);


--
-- Name: i_muc_room_subscribers_host_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_muc_room_subscribers_host_jid ON public.muc_room_subscribers USING btree (host, jid);


--
-- Name: i_muc_room_subscribers_host_room_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_muc_room_subscribers_host_room_jid ON public.muc_room_subscribers USING btree (host, room, jid);


--
-- Name: i_muc_room_subscribers_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_muc_room_subscribers_jid ON public.muc_room_subscribers USING btree (jid);


--
-- Name: i_oauth_token_token; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_oauth_token_token ON public.oauth_token USING btree (token);


--
-- Name: i_privacy_list_data_id; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_privacy_list_data_id ON public.privacy_list_data USING btree (id);


--
-- Name: i_privacy_list_sh_username; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_privacy_list_sh_username ON public.privacy_list USING btree (server_host, username);


--
-- Name: i_privacy_list_sh_username_name; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_privacy_list_sh_username_name ON public.privacy_list USING btree (server_host, username, name);


--
-- Name: i_private_storage_sh_username; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_private_storage_sh_username ON public.private_storage USING btree (server_host, username);


--
-- Name: i_proxy65_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_proxy65_jid ON public.proxy65 USING btree (jid_i);


--
-- Name: i_proxy65_sid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_proxy65_sid ON public.proxy65 USING btree (sid);


--
-- Name: i_pubsub_item_itemid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_pubsub_item_itemid ON public.pubsub_item USING btree (itemid);


--
-- Name: i_pubsub_item_tuple; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_pubsub_item_tuple ON public.pubsub_item USING btree (nodeid, itemid);


--
-- Name: i_pubsub_node_option_nodeid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_pubsub_node_option_nodeid ON public.pubsub_node_option USING btree (nodeid);


--
-- Name: i_pubsub_node_owner_nodeid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_pubsub_node_owner_nodeid ON public.pubsub_node_owner USING btree (nodeid);


--
-- Name: i_pubsub_node_parent; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_pubsub_node_parent ON public.pubsub_node USING btree (parent);


--
-- Name: i_pubsub_node_tuple; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_pubsub_node_tuple ON public.pubsub_node USING btree (host, node);


--
-- Name: i_pubsub_state_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_pubsub_state_jid ON public.pubsub_state USING btree (jid);


--
-- Name: i_pubsub_state_tuple; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_pubsub_state_tuple ON public.pubsub_state USING btree (nodeid, jid);


--
-- Name: i_pubsub_subscription_opt; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_pubsub_subscription_opt ON public.pubsub_subscription_opt USING btree (subid, opt_name);


--
-- Name: i_push_session_susn; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_push_session_susn ON public.push_session USING btree (server_host, username, service, node);


--
-- Name: i_rosterg_sh_user_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_rosterg_sh_user_jid ON public.rostergroups USING btree (server_host, username, jid);


--
-- Name: i_rosteru_sh_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_rosteru_sh_jid ON public.rosterusers USING btree (server_host, jid);


--
-- Name: i_rosteru_sh_user_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_rosteru_sh_user_jid ON public.rosterusers USING btree (server_host, username, jid);


--
-- Name: i_rosteru_sh_username; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_rosteru_sh_username ON public.rosterusers USING btree (server_host, username);


--
-- Name: i_route; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_route ON public.route USING btree (domain, server_host, node, pid);


--
-- Name: i_route_domain; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_route_domain ON public.route USING btree (domain);


--
-- Name: i_sm_node; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_sm_node ON public.sm USING btree (node);


--
-- Name: i_sm_sh_username; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_sm_sh_username ON public.sm USING btree (server_host, username);


--
-- Name: i_spool_sh_username; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_spool_sh_username ON public.spool USING btree (server_host, username);


--
-- Name: i_sr_group_sh_name; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_sr_group_sh_name ON public.sr_group USING btree (server_host, name);


--
-- Name: i_sr_user_sh_grp; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_sr_user_sh_grp ON public.sr_user USING btree (server_host, grp);


--
-- Name: i_sr_user_sh_jid; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_sr_user_sh_jid ON public.sr_user USING btree (server_host, jid);


--
-- Name: i_sr_user_sh_jid_grp; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX i_sr_user_sh_jid_grp ON public.sr_user USING btree (server_host, jid, grp);


--
-- Name: i_vcard_search_sh_lbday; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lbday ON public.vcard_search USING btree (server_host, lbday);


--
-- Name: i_vcard_search_sh_lctry; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lctry ON public.vcard_search USING btree (server_host, lctry);


--
-- Name: i_vcard_search_sh_lemail; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lemail ON public.vcard_search USING btree (server_host, lemail);


--
-- Name: i_vcard_search_sh_lfamily; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lfamily ON public.vcard_search USING btree (server_host, lfamily);


--
-- Name: i_vcard_search_sh_lfn; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lfn ON public.vcard_search USING btree (server_host, lfn);


--
-- Name: i_vcard_search_sh_lgiven; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lgiven ON public.vcard_search USING btree (server_host, lgiven);


--
-- Name: i_vcard_search_sh_llocality; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_llocality ON public.vcard_search USING btree (server_host, llocality);


--
-- Name: i_vcard_search_sh_lmiddle; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lmiddle ON public.vcard_search USING btree (server_host, lmiddle);


--
-- Name: i_vcard_search_sh_lnickname; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lnickname ON public.vcard_search USING btree (server_host, lnickname);


--
-- Name: i_vcard_search_sh_lorgname; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lorgname ON public.vcard_search USING btree (server_host, lorgname);


--
-- Name: i_vcard_search_sh_lorgunit; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX i_vcard_search_sh_lorgunit ON public.vcard_search USING btree (server_host, lorgunit);


--
-- Name: privacy_list_data privacy_list_data_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.privacy_list_data
    ADD CONSTRAINT privacy_list_data_id_fkey FOREIGN KEY (id) REFERENCES public.privacy_list(id) ON DELETE CASCADE;


--
-- Name: pubsub_item pubsub_item_nodeid_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_item
    ADD CONSTRAINT pubsub_item_nodeid_fkey FOREIGN KEY (nodeid) REFERENCES public.pubsub_node(nodeid) ON DELETE CASCADE;


--
-- Name: pubsub_node_option pubsub_node_option_nodeid_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_node_option
    ADD CONSTRAINT pubsub_node_option_nodeid_fkey FOREIGN KEY (nodeid) REFERENCES public.pubsub_node(nodeid) ON DELETE CASCADE;


--
-- Name: pubsub_node_owner pubsub_node_owner_nodeid_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_node_owner
    ADD CONSTRAINT pubsub_node_owner_nodeid_fkey FOREIGN KEY (nodeid) REFERENCES public.pubsub_node(nodeid) ON DELETE CASCADE;


--
-- Name: pubsub_state pubsub_state_nodeid_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.pubsub_state
    ADD CONSTRAINT pubsub_state_nodeid_fkey FOREIGN KEY (nodeid) REFERENCES public.pubsub_node(nodeid) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--

\unrestrict oN6XvcUUPOB39Uodkmc3n8YyaVgSs5lNicTIoLXdWf4weKyYWlVW4tCXawmkSsk

