PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE archive (
    username text,
    server_host text,
    "timestamp" bigint,
    peer text,
    bare_peer text,
    xml text,
    txt text,
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    kind text,
    nick text,
    created_at text
);
INSERT INTO archive VALUES('ball@conference.capulet.example','capulet.example',1795917156906477,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''030164bf5ac24be790e395ccf47f6e7e'' xmlns=''jabber:client''><subject>A feast &amp; a &lt;mask&gt;</subject></message>','',1,'groupchat','Jule','2026-11-29 01:52:36.950446');
INSERT INTO archive VALUES('ball@conference.capulet.example','capulet.example',1795917156968999,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''8c1acb582039463abbeb165616423517'' xmlns=''jabber:client''><body>Good pilgrim</body></message>','Good pilgrim',2,'groupchat','Jule','2026-11-29 01:52:37.012926');
INSERT INTO archive VALUES('romeo','montague.example',1795917157366138,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''56ccc10fd705412eb98918c9915f90ca'' xmlns=''jabber:client''><body>But soft, what light?</body></message>','But soft, what light?',3,'chat','','2026-11-29 01:52:37.470745');
INSERT INTO archive VALUES('romeo','montague.example',1795917157482380,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''64ccabc9a920464fa30ea32282950cd2'' xmlns=''jabber:client''><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>','It is the »east« & <Juliet> is the sun',4,'chat','','2026-11-29 01:52:37.532516');
INSERT INTO archive VALUES('juliet','capulet.example',1795917157482259,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''56ccc10fd705412eb98918c9915f90ca'' xmlns=''jabber:client''><body>But soft, what light?</body></message>','But soft, what light?',5,'chat','','2026-11-29 01:52:37.576973');
INSERT INTO archive VALUES('romeo','montague.example',1795917157538930,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''c428df549db443c8857aa86fc78c0bef'' xmlns=''jabber:client''><body>Arise 🌞</body></message>','Arise 🌞',6,'chat','','2026-11-29 01:52:37.586337');
INSERT INTO archive VALUES('juliet','capulet.example',1795917157538793,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''64ccabc9a920464fa30ea32282950cd2'' xmlns=''jabber:client''><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>','It is the »east« & <Juliet> is the sun',7,'chat','','2026-11-29 01:52:37.630511');
INSERT INTO archive VALUES('juliet','capulet.example',1795917157590780,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''c428df549db443c8857aa86fc78c0bef'' xmlns=''jabber:client''><body>Arise 🌞</body></message>','Arise 🌞',8,'chat','','2026-11-29 01:52:37.685723');
INSERT INTO archive VALUES('juliet','capulet.example',1795917157734066,'romeo@montague.example','romeo@montague.example','<message xml:lang=''en'' to=''romeo@montague.example'' from=''juliet@capulet.example/globe'' type=''chat'' id=''9354eea200c7431e9226fe45fe9bc30e'' xmlns=''jabber:client''><body>Ay me</body></message>','Ay me',9,'chat','','2026-11-29 01:52:37.73438');
INSERT INTO archive VALUES('romeo','montague.example',1795917157746353,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=''en'' to=''romeo@montague.example'' from=''juliet@capulet.example/globe'' type=''chat'' id=''9354eea200c7431e9226fe45fe9bc30e'' xmlns=''jabber:client''><body>Ay me</body></message>','Ay me',10,'chat','','2026-11-29 01:52:37.794418');
INSERT INTO archive VALUES('romeo','montague.example',1795917158547307,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''e52c76c675814bea97a3509f060195c0'' xmlns=''jabber:client''><body>Parting is such sweet sorrow</body></message>','Parting is such sweet sorrow',11,'chat','','2026-11-29 01:52:38.547531');
INSERT INTO archive VALUES('juliet','capulet.example',1795917158548393,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''e52c76c675814bea97a3509f060195c0'' xmlns=''jabber:client''><body>Parting is such sweet sorrow</body></message>','Parting is such sweet sorrow',12,'chat','','2026-11-29 01:52:38.590463');
INSERT INTO archive VALUES('romeo','montague.example',1795917158706294,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''a533d63e70ec4e138d32bf6ea154eb63'' xmlns=''jabber:client''><body>Good night</body></message>','Good night',13,'chat','','2026-11-29 01:52:38.70646');
INSERT INTO archive VALUES('juliet','capulet.example',1795917158710298,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''a533d63e70ec4e138d32bf6ea154eb63'' xmlns=''jabber:client''><body>Good night</body></message>','Good night',14,'chat','','2026-11-29 01:52:38.710479');
CREATE TABLE archive_prefs (
    username text,
    server_host text,
    def text,
    always text,
    never text,
    created_at text
);
CREATE TABLE bosh (
    sid text,
    node text,
    pid text
);
CREATE TABLE caps_features (
    node text,
    subnode text,
    feature text,
    created_at text
);
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/disco#info','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','vcard-temp','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/rsm','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','jabber:x:data','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/caps','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/shim','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/shim#SubID','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/nick+notify','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/nick','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/muc','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','urn:xmpp:forward:0','2026-11-29 01:52:30.949717');
INSERT INTO caps_features VALUES('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/commands','2026-11-29 01:52:30.949717');
CREATE TABLE last (
    username text,
    server_host text,
    seconds text,
    state text
);
CREATE TABLE mix_channel (
    channel text,
    service text,
    username text,
    domain text,
    jid text,
    hidden text,
    hmac_key text,
    created_at text
);
CREATE TABLE mix_pam (
    username text,
    server_host text,
    channel text,
    service text,
    id text,
    created_at text
);
CREATE TABLE mix_participant (
    channel text,
    service text,
    username text,
    domain text,
    jid text,
    id text,
    nick text,
    created_at text
);
CREATE TABLE mix_subscription (
    channel text,
    service text,
    username text,
    domain text,
    node text,
    jid text
);
CREATE TABLE motd (
    username text,
    server_host text,
    xml text,
    created_at text
);
CREATE TABLE mqtt_pub (
    username text,
    server_host text,
    resource text,
    topic text,
    qos text,
    payload text,
    payload_format text,
    content_type text,
    response_topic text,
    correlation_data text,
    user_properties text,
    expiry text
);
CREATE TABLE muc_online_room (
    name text,
    host text,
    server_host text,
    node text,
    pid text
);
CREATE TABLE muc_online_users (
    username text,
    server text,
    resource text,
    name text,
    host text,
    server_host text,
    node text
);
CREATE TABLE muc_registered (
    jid text,
    host text,
    server_host text,
    nick text,
    created_at text
);
CREATE TABLE muc_room (
    name text,
    host text,
    server_host text,
    opts text,
    created_at text
);
INSERT INTO muc_room VALUES('ball','conference.capulet.example','capulet.example','[{title,<<"The ball & more">>},{description,<<"Masks">>},{allow_change_subj,true},{allow_query_users,true},{allow_private_messages,true},{allow_private_messages_from_visitors,anyone},{allow_visitor_status,true},{allow_visitor_nickchange,true},{public,false},{public_list,true},{persistent,true},{moderated,true},{members_by_default,true},{members_only,true},{allow_user_invites,false},{password_protected,true},{captcha_protected,false},{password,<<"rose <water>">>},{anonymous,false},{logging,false},{max_users,200},{allow_voice_requests,true},{allow_subscription,false},{mam,true},{presence_broadcast,[moderator,participant,visitor]},{voice_request_min_interval,1800},{vcard,<<>>},{vcard_xupdate,undefined},{pubsub,<<>>},{enable_hats,false},{lang,<<"en">>},{captcha_whitelist,[]},{affiliations,[{{<<"juliet">>,<<"capulet.example">>,<<>>},{owner,<<>>}},{{<<"nurse">>,<<"capulet.example">>,<<>>},{admin,<<"as admin">>}},{{<<"paris">>,<<"elsewhere.example">>,<<>>},{outcast,<<"as outcast">>}},{{<<"romeo">>,<<"montague.example">>,<<>>},{member,<<"as member">>}}]},{roles,[{{<<"nurse">>,<<"capulet.example">>,<<>>},moderator},{{<<"romeo">>,<<"montague.example">>,<<>>},participant}]},{subject,[{text,<<>>,<<"A feast & a <mask>">>}]},{subject_author,<<"Jule">>},{hats_users,[]},{hibernation_time,undefined}]','1970-01-02 00:00:00');
CREATE TABLE muc_room_subscribers (
    room text,
    host text,
    jid text,
    nick text,
    nodes text,
    created_at text
);
CREATE TABLE oauth_client (
    client_id text,
    client_name text,
    grant_type text,
    options text
);
CREATE TABLE oauth_token (
    token text,
    jid text,
    scope text,
    "expire" bigint
);
CREATE TABLE privacy_default_list (
    username text,
    server_host text,
    name text
);
INSERT INTO privacy_default_list VALUES('juliet','capulet.example','Blocked contacts');
CREATE TABLE privacy_list (
    username text,
    server_host text,
    name text,
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    created_at text
);
INSERT INTO privacy_list VALUES('juliet','capulet.example','Blocked contacts',1,'2026-11-29 01:52:34.056875');
CREATE TABLE privacy_list_data (
    "id" bigint,
    t text,
    value text,
    action text,
    "ord" bigint,
    match_all boolean NOT NULL,
    match_iq boolean NOT NULL,
    match_message boolean NOT NULL,
    match_presence_in boolean NOT NULL,
    match_presence_out boolean NOT NULL
);
INSERT INTO privacy_list_data VALUES(1,'j','paris@elsewhere.example','d',0,1,0,0,0,0);
CREATE TABLE private_storage (
    username text,
    server_host text,
    namespace text,
    data text,
    created_at text
);
INSERT INTO private_storage VALUES('juliet','capulet.example','urn:example:house','<balcony xmlns=''urn:example:house''><door open=''yes''>left &amp; right</door></balcony>','2026-11-29 01:52:33.850282');
CREATE TABLE proxy65 (
    sid text,
    pid_t text,
    pid_i text,
    node_t text,
    node_i text,
    jid_i text
);
CREATE TABLE pubsub_item (
    "nodeid" bigint,
    itemid text,
    publisher text,
    creation text,
    modification text,
    payload text
);
INSERT INTO pubsub_item VALUES(1,'current','juliet@capulet.example/globe','001795:917154:947113','001795:917154:947113','<nick xmlns=''http://jabber.org/protocol/nick''>Jule</nick>');
INSERT INTO pubsub_item VALUES(2,'ball@rooms.example','juliet@capulet.example/globe','001795:917155:859994','001795:917155:859994','<conference xmlns=''urn:xmpp:bookmarks:1'' name=''ball'' autojoin=''true''><nick>J</nick></conference>');
INSERT INTO pubsub_item VALUES(2,'crypt@rooms.example','juliet@capulet.example/globe','001795:917156:267060','001795:917156:267060','<conference xmlns=''urn:xmpp:bookmarks:1'' name=''cryp'' autojoin=''true''><nick>J</nick></conference>');
CREATE TABLE pubsub_node (
    host text,
    node text,
    parent text,
    plugin text,
    "nodeid" INTEGER PRIMARY KEY AUTOINCREMENT
);
INSERT INTO pubsub_node VALUES('juliet@capulet.example','http://jabber.org/protocol/nick','','pep',1);
INSERT INTO pubsub_node VALUES('juliet@capulet.example','urn:xmpp:bookmarks:1','','pep',2);
CREATE TABLE pubsub_node_option (
    "nodeid" bigint,
    name text,
    val text
);
INSERT INTO pubsub_node_option VALUES(1,'access_model','open');
INSERT INTO pubsub_node_option VALUES(1,'deliver_notifications','true');
INSERT INTO pubsub_node_option VALUES(1,'deliver_payloads','true');
INSERT INTO pubsub_node_option VALUES(1,'itemreply','none');
INSERT INTO pubsub_node_option VALUES(1,'max_items','1');
INSERT INTO pubsub_node_option VALUES(1,'max_payload_size','250000');
INSERT INTO pubsub_node_option VALUES(1,'notification_type','headline');
INSERT INTO pubsub_node_option VALUES(1,'notify_config','false');
INSERT INTO pubsub_node_option VALUES(1,'notify_delete','false');
INSERT INTO pubsub_node_option VALUES(1,'notify_retract','false');
INSERT INTO pubsub_node_option VALUES(1,'persist_items','true');
INSERT INTO pubsub_node_option VALUES(1,'presence_based_delivery','true');
INSERT INTO pubsub_node_option VALUES(1,'publish_model','publishers');
INSERT INTO pubsub_node_option VALUES(1,'purge_offline','false');
INSERT INTO pubsub_node_option VALUES(1,'roster_groups_allowed','[]');
INSERT INTO pubsub_node_option VALUES(1,'rsm','true');
INSERT INTO pubsub_node_option VALUES(1,'send_last_published_item','on_sub_and_presence');
INSERT INTO pubsub_node_option VALUES(1,'sql','true');
INSERT INTO pubsub_node_option VALUES(1,'subscribe','true');
INSERT INTO pubsub_node_option VALUES(2,'access_model','whitelist');
INSERT INTO pubsub_node_option VALUES(2,'deliver_notifications','true');
INSERT INTO pubsub_node_option VALUES(2,'deliver_payloads','true');
INSERT INTO pubsub_node_option VALUES(2,'itemreply','none');
INSERT INTO pubsub_node_option VALUES(2,'max_items','20');
INSERT INTO pubsub_node_option VALUES(2,'max_payload_size','250000');
INSERT INTO pubsub_node_option VALUES(2,'notification_type','headline');
INSERT INTO pubsub_node_option VALUES(2,'notify_config','false');
INSERT INTO pubsub_node_option VALUES(2,'notify_delete','false');
INSERT INTO pubsub_node_option VALUES(2,'notify_retract','false');
INSERT INTO pubsub_node_option VALUES(2,'persist_items','true');
INSERT INTO pubsub_node_option VALUES(2,'presence_based_delivery','true');
INSERT INTO pubsub_node_option VALUES(2,'publish_model','publishers');
INSERT INTO pubsub_node_option VALUES(2,'purge_offline','false');
INSERT INTO pubsub_node_option VALUES(2,'roster_groups_allowed','[]');
INSERT INTO pubsub_node_option VALUES(2,'rsm','true');
INSERT INTO pubsub_node_option VALUES(2,'send_last_published_item','on_sub_and_presence');
INSERT INTO pubsub_node_option VALUES(2,'sql','true');
INSERT INTO pubsub_node_option VALUES(2,'subscribe','true');
CREATE TABLE pubsub_node_owner (
    "nodeid" bigint,
    owner text
);
CREATE TABLE pubsub_state (
    "nodeid" bigint,
    jid text,
    affiliation text,
    subscriptions text,
    "stateid" INTEGER PRIMARY KEY AUTOINCREMENT
);
INSERT INTO pubsub_state VALUES(1,'juliet@capulet.example','o','',1);
INSERT INTO pubsub_state VALUES(2,'juliet@capulet.example','o','',2);
CREATE TABLE pubsub_subscription_opt (
    subid text,
    opt_name text,
    opt_value text
);
CREATE TABLE push_session (
    username text,
    server_host text,
    "timestamp" bigint,
    service text,
    node text,
    xml text
);
CREATE TABLE roster_version (
    username text,
    server_host text,
    version text
);
CREATE TABLE rostergroups (
    username text,
    server_host text,
    jid text,
    grp text
);
INSERT INTO rostergroups VALUES('romeo','montague.example','juliet@capulet.example','Love');
INSERT INTO rostergroups VALUES('romeo','montague.example','juliet@capulet.example','Verona');
INSERT INTO rostergroups VALUES('juliet','capulet.example','romeo@montague.example','Montagues');
INSERT INTO rostergroups VALUES('mercutio','montague.example','tybalt@elsewhere.example','Foes');
CREATE TABLE rosterusers (
    username text,
    server_host text,
    jid text,
    nick text,
    subscription text,
    ask text,
    askmessage text,
    server text,
    subscribe text,
    type text,
    created_at text
);
INSERT INTO rosterusers VALUES('romeo','montague.example','juliet@capulet.example','Juliet & her balcony','B','N','','N','','item','2026-11-29 01:52:31.593399');
INSERT INTO rosterusers VALUES('juliet','capulet.example','romeo@montague.example','Rómeo','B','N','','N','','item','2026-11-29 01:52:31.698234');
INSERT INTO rosterusers VALUES('mercutio','montague.example','juliet@capulet.example','','N','O','','N','','item','2026-11-29 01:52:33.5101');
INSERT INTO rosterusers VALUES('juliet','capulet.example','mercutio@montague.example','','N','I','','N','','item','2026-11-29 01:52:33.512095');
INSERT INTO rosterusers VALUES('mercutio','montague.example','tybalt@elsewhere.example','King of Cats','N','N','','N','','item','2026-11-29 01:52:33.563447');
CREATE TABLE route (
    domain text,
    server_host text,
    node text,
    pid text,
    local_hint text
);
CREATE TABLE sm (
    usec text,
    pid text,
    node text,
    username text,
    server_host text,
    resource text,
    priority text,
    info text
);
CREATE TABLE spool (
    username text,
    server_host text,
    xml text,
    "seq" INTEGER PRIMARY KEY AUTOINCREMENT,
    created_at text
);
INSERT INTO spool VALUES('juliet','capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''e52c76c675814bea97a3509f060195c0'' xmlns=''jabber:client''><archived by=''juliet@capulet.example'' id=''1795917158548393'' xmlns=''urn:xmpp:mam:tmp''/><stanza-id by=''juliet@capulet.example'' id=''1795917158548393'' xmlns=''urn:xmpp:sid:0''/><delay from=''capulet.example'' stamp=''2026-11-29T01:52:38.653301Z'' xmlns=''urn:xmpp:delay''>Offline Storage</delay><body>Parting is such sweet sorrow</body></message>',1,'2026-11-29 01:52:38.702602');
INSERT INTO spool VALUES('juliet','capulet.example','<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''a533d63e70ec4e138d32bf6ea154eb63'' xmlns=''jabber:client''><archived by=''juliet@capulet.example'' id=''1795917158710298'' xmlns=''urn:xmpp:mam:tmp''/><stanza-id by=''juliet@capulet.example'' id=''1795917158710298'' xmlns=''urn:xmpp:sid:0''/><delay from=''capulet.example'' stamp=''2026-11-29T01:52:38.711543Z'' xmlns=''urn:xmpp:delay''>Offline Storage</delay><body>Good night</body></message>',2,'2026-11-29 01:52:38.754499');
CREATE TABLE sr_group (
    name text,
    server_host text,
    opts text,
    created_at text
);
CREATE TABLE sr_user (
    jid text,
    server_host text,
    grp text,
    created_at text
);
CREATE TABLE users (
    username text,
    server_host text,
    password text,
    serverkey text,
    salt text,
    "iterationcount" bigint,
    created_at text
);
INSERT INTO users VALUES('romeo','montague.example','sFftSWzMc84ZcJUycan8kalMm74=','il51wiA9tsZGPczSaD2GgEv55Bk=','kDeQJsgRnZXBwEcRJE4UIw==',4096,'2026-11-29 01:52:29.858084');
INSERT INTO users VALUES('juliet','capulet.example','+VLd5v4LmRQuJeS8yJLtrkJbwiA=','WAVzOu5l3rFm5OdQly9tghgNnB0=','4iVgDGAiAM8jvoV9IqcXtQ==',4096,'2026-11-29 01:52:30.003993');
INSERT INTO users VALUES('nurse','capulet.example','P/Wyu1cKPjVtZHfDu8Ls7edcWSc=','7RtYQ744uvWwiipsOeOhjuH31O4=','3VmWSvIR4ptzryPU+tAbiQ==',4096,'2026-11-29 01:52:30.14655');
INSERT INTO users VALUES('mercutio','montague.example','VGInyyNH6YoqeatK34MarG9OK1k=','OdelP6tB6nlunx+GmT4QTO9f3ic=','yYirhYK27Lnkl/Rx5K4+7Q==',4096,'2026-11-29 01:52:30.282084');
CREATE TABLE vcard (
    username text,
    server_host text,
    vcard text,
    created_at text
);
INSERT INTO vcard VALUES('juliet','capulet.example',replace('<vCard xmlns=''vcard-temp''><FN>Juliet Capulet</FN>\n<NICKNAME>Jule</NICKNAME></vCard>','\n',char(10)),'2026-11-29 01:52:33.959569');
CREATE TABLE vcard_search (
    username text,
    lusername text,
    server_host text,
    fn text,
    lfn text,
    family text,
    lfamily text,
    given text,
    lgiven text,
    middle text,
    lmiddle text,
    nickname text,
    lnickname text,
    bday text,
    lbday text,
    ctry text,
    lctry text,
    locality text,
    llocality text,
    email text,
    lemail text,
    orgname text,
    lorgname text,
    orgunit text,
    lorgunit text
);
INSERT INTO vcard_search VALUES('juliet','juliet','capulet.example','Juliet Capulet','juliet capulet','','','','','','','Jule','jule','','','','','','','','','','','','');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('archive',14);
INSERT INTO sqlite_sequence VALUES('privacy_list',1);
INSERT INTO sqlite_sequence VALUES('pubsub_node',2);
INSERT INTO sqlite_sequence VALUES('pubsub_state',2);
INSERT INTO sqlite_sequence VALUES('spool',2);
COMMIT;
