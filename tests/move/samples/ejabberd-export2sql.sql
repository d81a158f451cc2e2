-- 
-- Mnesia table: passwd
--
delete from users where username='juliet' and 0=0;
INSERT INTO users(username, password, serverkey, salt, iterationcount) VALUES ('juliet', 'M06toOKubaRkycwix6l5znhFD2s=', 'wUarSbUoNAFCEUzTuDsNizOEFBg=', 'sWBvCOsa0CPHe2D4LVvPmQ==', 4096);
delete from users where username='nurse' and 0=0;
INSERT INTO users(username, password, serverkey, salt, iterationcount) VALUES ('nurse', '5rIcS5FQ2CVkM7Nx4sX5O43TdOQ=', '+uhSSVJ31HIsWY5HGOcbhTp3i7E=', 'GLZBBS7iEXesp1EHhj3KSQ==', 4096);
-- 
-- Mnesia table: caps_features
--
delete from caps_features where node='http://slixmpp.com/ver/1.17.0' and subnode='yhS9Omca/OFLnlQo0+s2ABjdTaM=';
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/disco#info');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'vcard-temp');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/rsm');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'jabber:x:data');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/caps');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/shim');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/shim#SubID');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/nick+notify');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/nick');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/muc');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'urn:xmpp:forward:0');
insert into caps_features(node, subnode, feature) values ('http://slixmpp.com/ver/1.17.0', 'yhS9Omca/OFLnlQo0+s2ABjdTaM=', 'http://jabber.org/protocol/commands');
-- 
-- Mnesia table: archive_msg
--
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('ball@conference.capulet.example', 1795915388158953, 'juliet@capulet.example/globe', 'juliet@capulet.example', '<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''cd553a13823545a9989ffb68187dfbb7'' xmlns=''jabber:client''><subject>A feast &amp; a &lt;mask&gt;</subject></message>', '', 'groupchat', 'Jule');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('ball@conference.capulet.example', 1795915388166212, 'juliet@capulet.example/globe', 'juliet@capulet.example', '<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''e7f107f138914b99b535c4cee0e63f05'' xmlns=''jabber:client''><body>Good pilgrim</body></message>', 'Good pilgrim', 'groupchat', 'Jule');
-- 
-- Mnesia table: archive_msg
--
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('ball@conference.capulet.example', 1795915388158953, 'juliet@capulet.example/globe', 'juliet@capulet.example', '<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''cd553a13823545a9989ffb68187dfbb7'' xmlns=''jabber:client''><subject>A feast &amp; a &lt;mask&gt;</subject></message>', '', 'groupchat', 'Jule');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('ball@conference.capulet.example', 1795915388166212, 'juliet@capulet.example/globe', 'juliet@capulet.example', '<message xml:lang=''en'' to=''ball@conference.capulet.example'' from=''juliet@capulet.example/globe'' type=''groupchat'' id=''e7f107f138914b99b535c4cee0e63f05'' xmlns=''jabber:client''><body>Good pilgrim</body></message>', 'Good pilgrim', 'groupchat', 'Jule');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915388662801, 'romeo@montague.example/globe', 'romeo@montague.example', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''e51a82189c114d3fa81a9562ecd1bfd5'' xmlns=''jabber:client''><body>But soft, what light?</body></message>', 'But soft, what light?', 'chat', '');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915388663473, 'romeo@montague.example/globe', 'romeo@montague.example', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''0fc46880f2b64a74bc4cd751457ace2f'' xmlns=''jabber:client''><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>', 'It is the »east« & <Juliet> is the sun', 'chat', '');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915388663829, 'romeo@montague.example/globe', 'romeo@montague.example', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''ef953ae68e35401f95fddebe39b0b05d'' xmlns=''jabber:client''><body>Arise 🌞</body></message>', 'Arise 🌞', 'chat', '');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915388712864, 'romeo@montague.example', 'romeo@montague.example', '<message xml:lang=''en'' to=''romeo@montague.example'' from=''juliet@capulet.example/globe'' type=''chat'' id=''1b402b71f09e4b01906188aac7ddefc4'' xmlns=''jabber:client''><body>Ay me</body></message>', 'Ay me', 'chat', '');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915389371411, 'romeo@montague.example/globe', 'romeo@montague.example', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''01a7171d3fd144caacae450cd960435f'' xmlns=''jabber:client''><body>Parting is such sweet sorrow</body></message>', 'Parting is such sweet sorrow', 'chat', '');
INSERT INTO archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick) VALUES ('juliet', 1795915389379476, 'romeo@montague.example/globe', 'romeo@montague.example', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''a5de652c12744377aa9896c7184c0d28'' xmlns=''jabber:client''><body>Good night</body></message>', 'Good night', 'chat', '');
-- 
-- Mnesia table: muc_room
--
delete from muc_room where name='ball' and host='conference.capulet.example';
INSERT INTO muc_room(name, host, opts) VALUES ('ball', 'conference.capulet.example', '[{title,<<\"The ball & more\">>},{description,<<\"Masks\">>},{allow_change_subj,true},{allow_query_users,true},{allow_private_messages,true},{allow_private_messages_from_visitors,anyone},{allow_visitor_status,true},{allow_visitor_nickchange,true},{public,false},{public_list,true},{persistent,true},{moderated,true},{members_by_default,true},{members_only,true},{allow_user_invites,false},{password_protected,true},{captcha_protected,false},{password,<<\"rose <water>\">>},{anonymous,false},{logging,false},{max_users,200},{allow_voice_requests,true},{allow_subscription,false},{mam,true},{presence_broadcast,[moderator,participant,visitor]},{voice_request_min_interval,1800},{vcard,<<>>},{vcard_xupdate,undefined},{pubsub,<<>>},{enable_hats,false},{lang,<<\"en\">>},{captcha_whitelist,[]},{affiliations,[{{<<\"juliet\">>,<<\"capulet.example\">>,<<>>},{owner,<<>>}},{{<<\"nurse\">>,<<\"capulet.example\">>,<<>>},{admin,<<\"as admin\">>}},{{<<\"paris\">>,<<\"elsewhere.example\">>,<<>>},{outcast,<<\"as outcast\">>}},{{<<\"romeo\">>,<<\"montague.example\">>,<<>>},{member,<<\"as member\">>}}]},{roles,[{{<<\"nurse\">>,<<\"capulet.example\">>,<<>>},moderator},{{<<\"romeo\">>,<<\"montague.example\">>,<<>>},participant}]},{subject,[{text,<<>>,<<\"A feast & a <mask>\">>}]},{subject_author,<<\"Jule\">>},{hats_users,[]},{hibernation_time,undefined},{subscribers,[]}]');
-- 
-- Mnesia table: offline_msg
--
delete from spool where username='juliet' and 0=0;
delete from spool where username='juliet' and 0=0;
-- 
-- Mnesia table: offline_msg
--
INSERT INTO spool(username, xml) VALUES ('juliet', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''01a7171d3fd144caacae450cd960435f'' xmlns=''jabber:client''><archived by=''juliet@capulet.example'' id=''1795915389371411'' xmlns=''urn:xmpp:mam:tmp''/><stanza-id by=''juliet@capulet.example'' id=''1795915389371411'' xmlns=''urn:xmpp:sid:0''/><delay from=''capulet.example'' stamp=''2026-11-29T01:23:09.377462Z'' xmlns=''urn:xmpp:delay''>Offline Storage</delay><body>Parting is such sweet sorrow</body></message>');
INSERT INTO spool(username, xml) VALUES ('juliet', '<message xml:lang=''en'' to=''juliet@capulet.example'' from=''romeo@montague.example/globe'' type=''chat'' id=''a5de652c12744377aa9896c7184c0d28'' xmlns=''jabber:client''><archived by=''juliet@capulet.example'' id=''1795915389379476'' xmlns=''urn:xmpp:mam:tmp''/><stanza-id by=''juliet@capulet.example'' id=''1795915389379476'' xmlns=''urn:xmpp:sid:0''/><delay from=''capulet.example'' stamp=''2026-11-29T01:23:09.379793Z'' xmlns=''urn:xmpp:delay''>Offline Storage</delay><body>Good night</body></message>');
-- 
-- Mnesia table: privacy
--
delete from privacy_default_list where username='juliet' and 0=0;
INSERT INTO privacy_default_list(username, name) VALUES ('juliet', 'Blocked contacts');
delete from privacy_list where username='juliet' and 0=0 and name='Blocked contacts';
INSERT INTO privacy_list(username, name, id) VALUES ('juliet', 'Blocked contacts', 1);
delete from privacy_list_data where id=1;
insert into privacy_list_data(id, t, value, action, ord, match_all, match_iq, match_message, match_presence_in, match_presence_out) values (1, 'j', 'paris@elsewhere.example', 'd', 0, 1, 0, 0, 0, 0);
-- 
-- Mnesia table: private_storage
--
delete from private_storage where username='juliet' and 0=0 and namespace='urn:example:house';
INSERT INTO private_storage(username, namespace, data) VALUES ('juliet', 'urn:example:house', '<balcony xmlns=''urn:example:house''><door open=''yes''>left &amp; right</door></balcony>');
-- 
-- Mnesia table: pubsub_node
--
delete from pubsub_node where nodeid=2;
delete from pubsub_node_option where nodeid=2;
delete from pubsub_node_owner where nodeid=2;
delete from pubsub_state where nodeid=2;
delete from pubsub_item where nodeid=2;
insert into pubsub_node(host,node,nodeid,parent,plugin) values ('juliet@capulet.example', 'urn:xmpp:bookmarks:1', 2, '', 'pep');
insert into pubsub_node_option(nodeid,name,val) values (2, 'access_model', 'whitelist');
insert into pubsub_node_option(nodeid,name,val) values (2, 'deliver_notifications', 'true');
insert into pubsub_node_option(nodeid,name,val) values (2, 'deliver_payloads', 'true');
insert into pubsub_node_option(nodeid,name,val) values (2, 'itemreply', 'none');
insert into pubsub_node_option(nodeid,name,val) values (2, 'max_items', '20');
insert into pubsub_node_option(nodeid,name,val) values (2, 'max_payload_size', '250000');
insert into pubsub_node_option(nodeid,name,val) values (2, 'notification_type', 'headline');
insert into pubsub_node_option(nodeid,name,val) values (2, 'notify_config', 'false');
insert into pubsub_node_option(nodeid,name,val) values (2, 'notify_delete', 'false');
insert into pubsub_node_option(nodeid,name,val) values (2, 'notify_retract', 'false');
insert into pubsub_node_option(nodeid,name,val) values (2, 'persist_items', 'true');
insert into pubsub_node_option(nodeid,name,val) values (2, 'presence_based_delivery', 'true');
insert into pubsub_node_option(nodeid,name,val) values (2, 'publish_model', 'publishers');
insert into pubsub_node_option(nodeid,name,val) values (2, 'purge_offline', 'false');
insert into pubsub_node_option(nodeid,name,val) values (2, 'roster_groups_allowed', '[]');
insert into pubsub_node_option(nodeid,name,val) values (2, 'send_last_published_item', 'on_sub_and_presence');
insert into pubsub_node_option(nodeid,name,val) values (2, 'subscribe', 'true');
delete from pubsub_node where nodeid=1;
delete from pubsub_node_option where nodeid=1;
delete from pubsub_node_owner where nodeid=1;
delete from pubsub_state where nodeid=1;
delete from pubsub_item where nodeid=1;
insert into pubsub_node(host,node,nodeid,parent,plugin) values ('juliet@capulet.example', 'http://jabber.org/protocol/nick', 1, '', 'pep');
insert into pubsub_node_option(nodeid,name,val) values (1, 'access_model', 'open');
insert into pubsub_node_option(nodeid,name,val) values (1, 'deliver_notifications', 'true');
insert into pubsub_node_option(nodeid,name,val) values (1, 'deliver_payloads', 'true');
insert into pubsub_node_option(nodeid,name,val) values (1, 'itemreply', 'none');
insert into pubsub_node_option(nodeid,name,val) values (1, 'max_items', '1');
insert into pubsub_node_option(nodeid,name,val) values (1, 'max_payload_size', '250000');
insert into pubsub_node_option(nodeid,name,val) values (1, 'notification_type', 'headline');
insert into pubsub_node_option(nodeid,name,val) values (1, 'notify_config', 'false');
insert into pubsub_node_option(nodeid,name,val) values (1, 'notify_delete', 'false');
insert into pubsub_node_option(nodeid,name,val) values (1, 'notify_retract', 'false');
insert into pubsub_node_option(nodeid,name,val) values (1, 'persist_items', 'true');
insert into pubsub_node_option(nodeid,name,val) values (1, 'presence_based_delivery', 'true');
insert into pubsub_node_option(nodeid,name,val) values (1, 'publish_model', 'publishers');
insert into pubsub_node_option(nodeid,name,val) values (1, 'purge_offline', 'false');
insert into pubsub_node_option(nodeid,name,val) values (1, 'roster_groups_allowed', '[]');
insert into pubsub_node_option(nodeid,name,val) values (1, 'send_last_published_item', 'on_sub_and_presence');
insert into pubsub_node_option(nodeid,name,val) values (1, 'subscribe', 'true');
-- 
-- Mnesia table: pubsub_state
--
insert into pubsub_state(nodeid,jid,affiliation,subscriptions) values (1, 'juliet@capulet.example', 'o', '');
insert into pubsub_state(nodeid,jid,affiliation,subscriptions) values (2, 'juliet@capulet.example', 'o', '');
-- 
-- Mnesia table: pubsub_item
--
insert into pubsub_item(itemid,nodeid,creation,modification,publisher,payload) values ('current', 1, '001795:915388:076621', '001795:915388:076621', 'juliet@capulet.example/globe', '<nick xmlns=''http://jabber.org/protocol/nick''>Jule</nick>');
insert into pubsub_item(itemid,nodeid,creation,modification,publisher,payload) values ('ball@rooms.example', 2, '001795:915388:119155', '001795:915388:119155', 'juliet@capulet.example/globe', '<conference xmlns=''urn:xmpp:bookmarks:1'' name=''ball'' autojoin=''true''><nick>J</nick></conference>');
insert into pubsub_item(itemid,nodeid,creation,modification,publisher,payload) values ('crypt@rooms.example', 2, '001795:915388:121652', '001795:915388:121652', 'juliet@capulet.example/globe', '<conference xmlns=''urn:xmpp:bookmarks:1'' name=''cryp'' autojoin=''true''><nick>J</nick></conference>');
-- 
-- Mnesia table: roster
--
delete from rosterusers where username='juliet' and 0=0 and jid='romeo@montague.example';
INSERT INTO rosterusers(username, jid, nick, subscription, ask, askmessage, server, subscribe, type) VALUES ('juliet', 'romeo@montague.example', 'Rómeo', 'B', 'N', '', 'N', '', 'item');
delete from rostergroups where username='juliet' and 0=0 and jid='romeo@montague.example';
INSERT INTO rostergroups(username, jid, grp) VALUES ('juliet', 'romeo@montague.example', 'Montagues');
delete from rosterusers where username='juliet' and 0=0 and jid='mercutio@montague.example';
INSERT INTO rosterusers(username, jid, nick, subscription, ask, askmessage, server, subscribe, type) VALUES ('juliet', 'mercutio@montague.example', '', 'N', 'I', '', 'N', '', 'item');
delete from rostergroups where username='juliet' and 0=0 and jid='mercutio@montague.example';
-- 
-- Mnesia table: vcard
--
delete from vcard where username='juliet' and 0=0;
INSERT INTO vcard(username, vcard) VALUES ('juliet', '<vCard xmlns=''vcard-temp''><FN>Juliet Capulet</FN><NICKNAME>Jule</NICKNAME></vCard>');
-- 
-- Mnesia table: vcard_search
--
delete from vcard_search where lusername='juliet' and 0=0;
INSERT INTO vcard_search(username, lusername, fn, lfn, family, lfamily, given, lgiven, middle, lmiddle, nickname, lnickname, bday, lbday, ctry, lctry, locality, llocality, email, lemail, orgname, lorgname, orgunit, lorgunit) VALUES ('juliet', 'juliet', 'Juliet Capulet', 'juliet capulet', '', '', '', '', '', '', 'Jule', 'jule', '', '', '', '', '', '', '', '', '', '', '', '');
