/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: ejabberd
-- ------------------------------------------------------
-- Server version	10.11.19-MariaDB-0+deb12u1

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table `archive`
--

DROP TABLE IF EXISTS `archive`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `archive` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `timestamp` bigint(20) unsigned NOT NULL,
  `peer` varchar(191) NOT NULL,
  `bare_peer` varchar(191) NOT NULL,
  `xml` mediumtext NOT NULL,
  `txt` mediumtext DEFAULT NULL,
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `kind` varchar(10) DEFAULT NULL,
  `nick` varchar(191) DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `id` (`id`),
  KEY `i_archive_sh_username_timestamp` (`server_host`,`username`,`timestamp`) USING BTREE,
  KEY `i_archive_sh_username_peer` (`server_host`,`username`,`peer`) USING BTREE,
  KEY `i_archive_sh_username_bare_peer` (`server_host`,`username`,`bare_peer`) USING BTREE,
  KEY `i_archive_sh_timestamp` (`server_host`,`timestamp`) USING BTREE,
  FULLTEXT KEY `i_text` (`txt`)
) ENGINE=InnoDB AUTO_INCREMENT=15 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `archive`
--

LOCK TABLES `archive` WRITE;
/*!40000 ALTER TABLE `archive` DISABLE KEYS */;
INSERT INTO `archive` VALUES
('ball@conference.capulet.example','capulet.example',1795917219109510,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=\'en\' to=\'ball@conference.capulet.example\' from=\'juliet@capulet.example/globe\' type=\'groupchat\' id=\'a6f4321a76654d4baed41b2e41ce8eec\' xmlns=\'jabber:client\'><subject>A feast &amp; a &lt;mask&gt;</subject></message>','',1,'groupchat','Jule','2026-11-29 01:53:39'),
('ball@conference.capulet.example','capulet.example',1795917219120978,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=\'en\' to=\'ball@conference.capulet.example\' from=\'juliet@capulet.example/globe\' type=\'groupchat\' id=\'35f043493fa3425f8e5a93b5c3a467b8\' xmlns=\'jabber:client\'><body>Good pilgrim</body></message>','Good pilgrim',2,'groupchat','Jule','2026-11-29 01:53:39'),
('romeo','montague.example',1795917219610338,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'0f3a0384127a440fbc8ede07799cca97\' xmlns=\'jabber:client\'><body>But soft, what light?</body></message>','But soft, what light?',3,'chat','','2026-11-29 01:53:39'),
('romeo','montague.example',1795917219612442,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'2fe97cbc7e6a4ceb90bf46a6b8834cdd\' xmlns=\'jabber:client\'><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>','It is the »east« & <Juliet> is the sun',4,'chat','','2026-11-29 01:53:39'),
('juliet','capulet.example',1795917219612279,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'0f3a0384127a440fbc8ede07799cca97\' xmlns=\'jabber:client\'><body>But soft, what light?</body></message>','But soft, what light?',5,'chat','','2026-11-29 01:53:39'),
('romeo','montague.example',1795917219613602,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'2a0960c58a52422fb30a96bc7da73dbd\' xmlns=\'jabber:client\'><body>Arise 🌞</body></message>','Arise 🌞',6,'chat','','2026-11-29 01:53:39'),
('juliet','capulet.example',1795917219613501,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'2fe97cbc7e6a4ceb90bf46a6b8834cdd\' xmlns=\'jabber:client\'><body>It is the »east« &amp; &lt;Juliet&gt; is the sun</body></message>','It is the »east« & <Juliet> is the sun',7,'chat','','2026-11-29 01:53:39'),
('juliet','capulet.example',1795917219615071,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'2a0960c58a52422fb30a96bc7da73dbd\' xmlns=\'jabber:client\'><body>Arise 🌞</body></message>','Arise 🌞',8,'chat','','2026-11-29 01:53:39'),
('juliet','capulet.example',1795917219661080,'romeo@montague.example','romeo@montague.example','<message xml:lang=\'en\' to=\'romeo@montague.example\' from=\'juliet@capulet.example/globe\' type=\'chat\' id=\'4e95fc9dfeb84c1e8e7b84683c871472\' xmlns=\'jabber:client\'><body>Ay me</body></message>','Ay me',9,'chat','','2026-11-29 01:53:39'),
('romeo','montague.example',1795917219663399,'juliet@capulet.example/globe','juliet@capulet.example','<message xml:lang=\'en\' to=\'romeo@montague.example\' from=\'juliet@capulet.example/globe\' type=\'chat\' id=\'4e95fc9dfeb84c1e8e7b84683c871472\' xmlns=\'jabber:client\'><body>Ay me</body></message>','Ay me',10,'chat','','2026-11-29 01:53:39'),
('romeo','montague.example',1795917220319588,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'5929520106d5429381a7837003ba7d58\' xmlns=\'jabber:client\'><body>Parting is such sweet sorrow</body></message>','Parting is such sweet sorrow',11,'chat','','2026-11-29 01:53:40'),
('juliet','capulet.example',1795917220320808,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'5929520106d5429381a7837003ba7d58\' xmlns=\'jabber:client\'><body>Parting is such sweet sorrow</body></message>','Parting is such sweet sorrow',12,'chat','','2026-11-29 01:53:40'),
('romeo','montague.example',1795917220328875,'juliet@capulet.example','juliet@capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'db00d0bacad143408227a5481b0f9c37\' xmlns=\'jabber:client\'><body>Good night</body></message>','Good night',13,'chat','','2026-11-29 01:53:40'),
('juliet','capulet.example',1795917220329519,'romeo@montague.example/globe','romeo@montague.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'db00d0bacad143408227a5481b0f9c37\' xmlns=\'jabber:client\'><body>Good night</body></message>','Good night',14,'chat','','2026-11-29 01:53:40');
/*!40000 ALTER TABLE `archive` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `archive_prefs`
--

DROP TABLE IF EXISTS `archive_prefs`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `archive_prefs` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `def` text NOT NULL,
  `always` text NOT NULL,
  `never` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `archive_prefs`
--

LOCK TABLES `archive_prefs` WRITE;
/*!40000 ALTER TABLE `archive_prefs` DISABLE KEYS */;
/*!40000 ALTER TABLE `archive_prefs` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `bosh`
--

DROP TABLE IF EXISTS `bosh`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `bosh` (
  `sid` text NOT NULL,
  `node` text NOT NULL,
  `pid` text NOT NULL,
  UNIQUE KEY `i_bosh_sid` (`sid`(75))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `bosh`
--

LOCK TABLES `bosh` WRITE;
/*!40000 ALTER TABLE `bosh` DISABLE KEYS */;
/*!40000 ALTER TABLE `bosh` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `caps_features`
--

DROP TABLE IF EXISTS `caps_features`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `caps_features` (
  `node` varchar(191) NOT NULL,
  `subnode` varchar(191) NOT NULL,
  `feature` text DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  KEY `i_caps_features_node_subnode` (`node`(75),`subnode`(75))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `caps_features`
--

LOCK TABLES `caps_features` WRITE;
/*!40000 ALTER TABLE `caps_features` DISABLE KEYS */;
INSERT INTO `caps_features` VALUES
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/disco#info','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','vcard-temp','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/rsm','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','jabber:x:data','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/shim','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/shim#SubID','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/caps','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/nick+notify','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/nick','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/muc','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','http://jabber.org/protocol/commands','2026-11-29 01:53:38'),
('http://slixmpp.com/ver/1.17.0','yhS9Omca/OFLnlQo0+s2ABjdTaM=','urn:xmpp:forward:0','2026-11-29 01:53:38');
/*!40000 ALTER TABLE `caps_features` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `last`
--

DROP TABLE IF EXISTS `last`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `last` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `seconds` text NOT NULL,
  `state` text NOT NULL,
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `last`
--

LOCK TABLES `last` WRITE;
/*!40000 ALTER TABLE `last` DISABLE KEYS */;
/*!40000 ALTER TABLE `last` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `mix_channel`
--

DROP TABLE IF EXISTS `mix_channel`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `mix_channel` (
  `channel` text NOT NULL,
  `service` text NOT NULL,
  `username` text NOT NULL,
  `domain` text NOT NULL,
  `jid` text NOT NULL,
  `hidden` tinyint(1) NOT NULL,
  `hmac_key` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_mix_channel` (`channel`(191),`service`(191)),
  KEY `i_mix_channel_serv` (`service`(191))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `mix_channel`
--

LOCK TABLES `mix_channel` WRITE;
/*!40000 ALTER TABLE `mix_channel` DISABLE KEYS */;
/*!40000 ALTER TABLE `mix_channel` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `mix_pam`
--

DROP TABLE IF EXISTS `mix_pam`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `mix_pam` (
  `username` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `channel` text NOT NULL,
  `service` text NOT NULL,
  `id` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_mix_pam` (`username`(191),`server_host`,`channel`(191),`service`(191)),
  KEY `i_mix_pam_us` (`username`(191),`server_host`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `mix_pam`
--

LOCK TABLES `mix_pam` WRITE;
/*!40000 ALTER TABLE `mix_pam` DISABLE KEYS */;
/*!40000 ALTER TABLE `mix_pam` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `mix_participant`
--

DROP TABLE IF EXISTS `mix_participant`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `mix_participant` (
  `channel` text NOT NULL,
  `service` text NOT NULL,
  `username` text NOT NULL,
  `domain` text NOT NULL,
  `jid` text NOT NULL,
  `id` text NOT NULL,
  `nick` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_mix_participant` (`channel`(191),`service`(191),`username`(191),`domain`(191)),
  KEY `i_mix_participant_chan_serv` (`channel`(191),`service`(191))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `mix_participant`
--

LOCK TABLES `mix_participant` WRITE;
/*!40000 ALTER TABLE `mix_participant` DISABLE KEYS */;
/*!40000 ALTER TABLE `mix_participant` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `mix_subscription`
--

DROP TABLE IF EXISTS `mix_subscription`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `mix_subscription` (
  `channel` text NOT NULL,
  `service` text NOT NULL,
  `username` text NOT NULL,
  `domain` text NOT NULL,
  `node` text NOT NULL,
  `jid` text NOT NULL,
  UNIQUE KEY `i_mix_subscription` (`channel`(153),`service`(153),`username`(153),`domain`(153),`node`(153)),
  KEY `i_mix_subscription_chan_serv_ud` (`channel`(191),`service`(191),`username`(191),`domain`(191)),
  KEY `i_mix_subscription_chan_serv_node` (`channel`(191),`service`(191),`node`(191)),
  KEY `i_mix_subscription_chan_serv` (`channel`(191),`service`(191))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `mix_subscription`
--

LOCK TABLES `mix_subscription` WRITE;
/*!40000 ALTER TABLE `mix_subscription` DISABLE KEYS */;
/*!40000 ALTER TABLE `mix_subscription` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `motd`
--

DROP TABLE IF EXISTS `motd`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `motd` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `xml` text DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `motd`
--

LOCK TABLES `motd` WRITE;
/*!40000 ALTER TABLE `motd` DISABLE KEYS */;
/*!40000 ALTER TABLE `motd` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `mqtt_pub`
--

DROP TABLE IF EXISTS `mqtt_pub`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `mqtt_pub` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `resource` varchar(191) NOT NULL,
  `topic` text NOT NULL,
  `qos` tinyint(4) NOT NULL,
  `payload` blob NOT NULL,
  `payload_format` tinyint(4) NOT NULL,
  `content_type` text NOT NULL,
  `response_topic` text NOT NULL,
  `correlation_data` blob NOT NULL,
  `user_properties` blob NOT NULL,
  `expiry` int(10) unsigned NOT NULL,
  UNIQUE KEY `i_mqtt_topic_server` (`topic`(191),`server_host`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `mqtt_pub`
--

LOCK TABLES `mqtt_pub` WRITE;
/*!40000 ALTER TABLE `mqtt_pub` DISABLE KEYS */;
/*!40000 ALTER TABLE `mqtt_pub` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `muc_online_room`
--

DROP TABLE IF EXISTS `muc_online_room`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `muc_online_room` (
  `name` text NOT NULL,
  `host` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `node` text NOT NULL,
  `pid` text NOT NULL,
  UNIQUE KEY `i_muc_online_room_name_host` (`name`(75),`host`(75)) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `muc_online_room`
--

LOCK TABLES `muc_online_room` WRITE;
/*!40000 ALTER TABLE `muc_online_room` DISABLE KEYS */;
/*!40000 ALTER TABLE `muc_online_room` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `muc_online_users`
--

DROP TABLE IF EXISTS `muc_online_users`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `muc_online_users` (
  `username` text NOT NULL,
  `server` text NOT NULL,
  `resource` text NOT NULL,
  `name` text NOT NULL,
  `host` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `node` text NOT NULL,
  UNIQUE KEY `i_muc_online_users` (`username`(75),`server`(75),`resource`(75),`name`(75),`host`(75)) USING BTREE,
  KEY `i_muc_online_users_us` (`username`(75),`server`(75)) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `muc_online_users`
--

LOCK TABLES `muc_online_users` WRITE;
/*!40000 ALTER TABLE `muc_online_users` DISABLE KEYS */;
/*!40000 ALTER TABLE `muc_online_users` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `muc_registered`
--

DROP TABLE IF EXISTS `muc_registered`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `muc_registered` (
  `jid` text NOT NULL,
  `host` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `nick` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_muc_registered_jid_host` (`jid`(75),`host`(75)) USING BTREE,
  KEY `i_muc_registered_nick` (`nick`(75)) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `muc_registered`
--

LOCK TABLES `muc_registered` WRITE;
/*!40000 ALTER TABLE `muc_registered` DISABLE KEYS */;
/*!40000 ALTER TABLE `muc_registered` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `muc_room`
--

DROP TABLE IF EXISTS `muc_room`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `muc_room` (
  `name` text NOT NULL,
  `host` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `opts` mediumtext NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_muc_room_name_host` (`name`(75),`host`(75)) USING BTREE,
  KEY `i_muc_room_host_created_at` (`host`(75),`created_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `muc_room`
--

LOCK TABLES `muc_room` WRITE;
/*!40000 ALTER TABLE `muc_room` DISABLE KEYS */;
INSERT INTO `muc_room` VALUES
('ball','conference.capulet.example','capulet.example','[{title,<<\"The ball & more\">>},{description,<<\"Masks\">>},{allow_change_subj,true},{allow_query_users,true},{allow_private_messages,true},{allow_private_messages_from_visitors,anyone},{allow_visitor_status,true},{allow_visitor_nickchange,true},{public,false},{public_list,true},{persistent,true},{moderated,true},{members_by_default,true},{members_only,true},{allow_user_invites,false},{password_protected,true},{captcha_protected,false},{password,<<\"rose <water>\">>},{anonymous,false},{logging,false},{max_users,200},{allow_voice_requests,true},{allow_subscription,false},{mam,true},{presence_broadcast,[moderator,participant,visitor]},{voice_request_min_interval,1800},{vcard,<<>>},{vcard_xupdate,undefined},{pubsub,<<>>},{enable_hats,false},{lang,<<\"en\">>},{captcha_whitelist,[]},{affiliations,[{{<<\"juliet\">>,<<\"capulet.example\">>,<<>>},{owner,<<>>}},{{<<\"nurse\">>,<<\"capulet.example\">>,<<>>},{admin,<<\"as admin\">>}},{{<<\"paris\">>,<<\"elsewhere.example\">>,<<>>},{outcast,<<\"as outcast\">>}},{{<<\"romeo\">>,<<\"montague.example\">>,<<>>},{member,<<\"as member\">>}}]},{roles,[{{<<\"nurse\">>,<<\"capulet.example\">>,<<>>},moderator},{{<<\"romeo\">>,<<\"montague.example\">>,<<>>},participant}]},{subject,[{text,<<>>,<<\"A feast & a <mask>\">>}]},{subject_author,<<\"Jule\">>},{hats_users,[]},{hibernation_time,undefined}]','1970-01-02 00:00:00');
/*!40000 ALTER TABLE `muc_room` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `muc_room_subscribers`
--

DROP TABLE IF EXISTS `muc_room_subscribers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `muc_room_subscribers` (
  `room` varchar(191) NOT NULL,
  `host` varchar(191) NOT NULL,
  `jid` varchar(191) NOT NULL,
  `nick` text NOT NULL,
  `nodes` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_muc_room_subscribers_host_room_jid` (`host`,`room`,`jid`),
  KEY `i_muc_room_subscribers_host_jid` (`host`,`jid`) USING BTREE,
  KEY `i_muc_room_subscribers_jid` (`jid`) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `muc_room_subscribers`
--

LOCK TABLES `muc_room_subscribers` WRITE;
/*!40000 ALTER TABLE `muc_room_subscribers` DISABLE KEYS */;
/*!40000 ALTER TABLE `muc_room_subscribers` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `oauth_client`
--

DROP TABLE IF EXISTS `oauth_client`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `oauth_client` (
  `client_id` varchar(191) NOT NULL,
  `client_name` text NOT NULL,
  `grant_type` text NOT NULL,
  `options` text NOT NULL,
  PRIMARY KEY (`client_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `oauth_client`
--

LOCK TABLES `oauth_client` WRITE;
/*!40000 ALTER TABLE `oauth_client` DISABLE KEYS */;
/*!40000 ALTER TABLE `oauth_client` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `oauth_token`
--

DROP TABLE IF EXISTS `oauth_token`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `oauth_token` (
  `token` varchar(191) NOT NULL,
  `jid` text NOT NULL,
  `scope` text NOT NULL,
  `expire` bigint(20) NOT NULL,
  PRIMARY KEY (`token`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `oauth_token`
--

LOCK TABLES `oauth_token` WRITE;
/*!40000 ALTER TABLE `oauth_token` DISABLE KEYS */;
/*!40000 ALTER TABLE `oauth_token` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `privacy_default_list`
--

DROP TABLE IF EXISTS `privacy_default_list`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `privacy_default_list` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `name` varchar(191) NOT NULL,
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `privacy_default_list`
--

LOCK TABLES `privacy_default_list` WRITE;
/*!40000 ALTER TABLE `privacy_default_list` DISABLE KEYS */;
INSERT INTO `privacy_default_list` VALUES
('juliet','capulet.example','Blocked contacts');
/*!40000 ALTER TABLE `privacy_default_list` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `privacy_list`
--

DROP TABLE IF EXISTS `privacy_list`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `privacy_list` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `name` varchar(191) NOT NULL,
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `id` (`id`),
  UNIQUE KEY `i_privacy_list_sh_username_name` (`server_host`,`username`(75),`name`(75)) USING BTREE,
  KEY `i_privacy_list_sh_username` (`server_host`,`username`) USING BTREE
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `privacy_list`
--

LOCK TABLES `privacy_list` WRITE;
/*!40000 ALTER TABLE `privacy_list` DISABLE KEYS */;
INSERT INTO `privacy_list` VALUES
('juliet','capulet.example','Blocked contacts',1,'2026-11-29 01:53:38');
/*!40000 ALTER TABLE `privacy_list` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `privacy_list_data`
--

DROP TABLE IF EXISTS `privacy_list_data`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `privacy_list_data` (
  `id` bigint(20) DEFAULT NULL,
  `t` char(1) NOT NULL,
  `value` text NOT NULL,
  `action` char(1) NOT NULL,
  `ord` decimal(10,0) NOT NULL,
  `match_all` tinyint(1) NOT NULL,
  `match_iq` tinyint(1) NOT NULL,
  `match_message` tinyint(1) NOT NULL,
  `match_presence_in` tinyint(1) NOT NULL,
  `match_presence_out` tinyint(1) NOT NULL,
  KEY `i_privacy_list_data_id` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `privacy_list_data`
--

LOCK TABLES `privacy_list_data` WRITE;
/*!40000 ALTER TABLE `privacy_list_data` DISABLE KEYS */;
INSERT INTO `privacy_list_data` VALUES
(1,'j','paris@elsewhere.example','d',0,1,0,0,0,0);
/*!40000 ALTER TABLE `privacy_list_data` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `private_storage`
--

DROP TABLE IF EXISTS `private_storage`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `private_storage` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `namespace` varchar(191) NOT NULL,
  `data` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`username`,`namespace`),
  KEY `i_private_storage_sh_username` (`server_host`,`username`) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `private_storage`
--

LOCK TABLES `private_storage` WRITE;
/*!40000 ALTER TABLE `private_storage` DISABLE KEYS */;
INSERT INTO `private_storage` VALUES
('juliet','capulet.example','urn:example:house','<balcony xmlns=\'urn:example:house\'><door open=\'yes\'>left &amp; right</door></balcony>','2026-11-29 01:53:38');
/*!40000 ALTER TABLE `private_storage` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `proxy65`
--

DROP TABLE IF EXISTS `proxy65`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `proxy65` (
  `sid` text NOT NULL,
  `pid_t` text NOT NULL,
  `pid_i` text NOT NULL,
  `node_t` text NOT NULL,
  `node_i` text NOT NULL,
  `jid_i` text NOT NULL,
  UNIQUE KEY `i_proxy65_sid` (`sid`(191)),
  KEY `i_proxy65_jid` (`jid_i`(191))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `proxy65`
--

LOCK TABLES `proxy65` WRITE;
/*!40000 ALTER TABLE `proxy65` DISABLE KEYS */;
/*!40000 ALTER TABLE `proxy65` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_item`
--

DROP TABLE IF EXISTS `pubsub_item`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_item` (
  `nodeid` bigint(20) DEFAULT NULL,
  `itemid` text NOT NULL,
  `publisher` text NOT NULL,
  `creation` varchar(32) NOT NULL,
  `modification` varchar(32) NOT NULL,
  `payload` mediumtext NOT NULL,
  UNIQUE KEY `i_pubsub_item_tuple` (`nodeid`,`itemid`(36)),
  KEY `i_pubsub_item_itemid` (`itemid`(36)),
  CONSTRAINT `pubsub_item_ibfk_1` FOREIGN KEY (`nodeid`) REFERENCES `pubsub_node` (`nodeid`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_item`
--

LOCK TABLES `pubsub_item` WRITE;
/*!40000 ALTER TABLE `pubsub_item` DISABLE KEYS */;
INSERT INTO `pubsub_item` VALUES
(1,'current','juliet@capulet.example/globe','001795:917218:893092','001795:917218:893092','<nick xmlns=\'http://jabber.org/protocol/nick\'>Jule</nick>'),
(2,'ball@rooms.example','juliet@capulet.example/globe','001795:917218:981829','001795:917218:981829','<conference xmlns=\'urn:xmpp:bookmarks:1\' name=\'ball\' autojoin=\'true\'><nick>J</nick></conference>'),
(2,'crypt@rooms.example','juliet@capulet.example/globe','001795:917218:999943','001795:917218:999943','<conference xmlns=\'urn:xmpp:bookmarks:1\' name=\'cryp\' autojoin=\'true\'><nick>J</nick></conference>');
/*!40000 ALTER TABLE `pubsub_item` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_node`
--

DROP TABLE IF EXISTS `pubsub_node`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_node` (
  `host` text NOT NULL,
  `node` text NOT NULL,
  `parent` varchar(191) NOT NULL DEFAULT '',
  `plugin` text NOT NULL,
  `nodeid` bigint(20) NOT NULL AUTO_INCREMENT,
  PRIMARY KEY (`nodeid`),
  UNIQUE KEY `i_pubsub_node_tuple` (`host`(71),`node`(120)),
  KEY `i_pubsub_node_parent` (`parent`(120))
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_node`
--

LOCK TABLES `pubsub_node` WRITE;
/*!40000 ALTER TABLE `pubsub_node` DISABLE KEYS */;
INSERT INTO `pubsub_node` VALUES
('juliet@capulet.example','http://jabber.org/protocol/nick','','pep',1),
('juliet@capulet.example','urn:xmpp:bookmarks:1','','pep',2);
/*!40000 ALTER TABLE `pubsub_node` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_node_option`
--

DROP TABLE IF EXISTS `pubsub_node_option`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_node_option` (
  `nodeid` bigint(20) DEFAULT NULL,
  `name` text NOT NULL,
  `val` text NOT NULL,
  KEY `i_pubsub_node_option_nodeid` (`nodeid`),
  CONSTRAINT `pubsub_node_option_ibfk_1` FOREIGN KEY (`nodeid`) REFERENCES `pubsub_node` (`nodeid`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_node_option`
--

LOCK TABLES `pubsub_node_option` WRITE;
/*!40000 ALTER TABLE `pubsub_node_option` DISABLE KEYS */;
INSERT INTO `pubsub_node_option` VALUES
(1,'access_model','open'),
(1,'deliver_notifications','true'),
(1,'deliver_payloads','true'),
(1,'itemreply','none'),
(1,'max_items','1'),
(1,'max_payload_size','250000'),
(1,'notification_type','headline'),
(1,'notify_config','false'),
(1,'notify_delete','false'),
(1,'notify_retract','false'),
(1,'persist_items','true'),
(1,'presence_based_delivery','true'),
(1,'publish_model','publishers'),
(1,'purge_offline','false'),
(1,'roster_groups_allowed','[]'),
(1,'rsm','true'),
(1,'send_last_published_item','on_sub_and_presence'),
(1,'sql','true'),
(1,'subscribe','true'),
(2,'access_model','whitelist'),
(2,'deliver_notifications','true'),
(2,'deliver_payloads','true'),
(2,'itemreply','none'),
(2,'max_items','20'),
(2,'max_payload_size','250000'),
(2,'notification_type','headline'),
(2,'notify_config','false'),
(2,'notify_delete','false'),
(2,'notify_retract','false'),
(2,'persist_items','true'),
(2,'presence_based_delivery','true'),
(2,'publish_model','publishers'),
(2,'purge_offline','false'),
(2,'roster_groups_allowed','[]'),
(2,'rsm','true'),
(2,'send_last_published_item','on_sub_and_presence'),
(2,'sql','true'),
(2,'subscribe','true');
/*!40000 ALTER TABLE `pubsub_node_option` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_node_owner`
--

DROP TABLE IF EXISTS `pubsub_node_owner`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_node_owner` (
  `nodeid` bigint(20) DEFAULT NULL,
  `owner` text NOT NULL,
  KEY `i_pubsub_node_owner_nodeid` (`nodeid`),
  CONSTRAINT `pubsub_node_owner_ibfk_1` FOREIGN KEY (`nodeid`) REFERENCES `pubsub_node` (`nodeid`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_node_owner`
--

LOCK TABLES `pubsub_node_owner` WRITE;
/*!40000 ALTER TABLE `pubsub_node_owner` DISABLE KEYS */;
/*!40000 ALTER TABLE `pubsub_node_owner` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_state`
--

DROP TABLE IF EXISTS `pubsub_state`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_state` (
  `nodeid` bigint(20) DEFAULT NULL,
  `jid` text NOT NULL,
  `affiliation` char(1) DEFAULT NULL,
  `subscriptions` varchar(191) NOT NULL DEFAULT '',
  `stateid` bigint(20) NOT NULL AUTO_INCREMENT,
  PRIMARY KEY (`stateid`),
  UNIQUE KEY `i_pubsub_state_tuple` (`nodeid`,`jid`(60)),
  KEY `i_pubsub_state_jid` (`jid`(60)),
  CONSTRAINT `pubsub_state_ibfk_1` FOREIGN KEY (`nodeid`) REFERENCES `pubsub_node` (`nodeid`) ON DELETE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_state`
--

LOCK TABLES `pubsub_state` WRITE;
/*!40000 ALTER TABLE `pubsub_state` DISABLE KEYS */;
INSERT INTO `pubsub_state` VALUES
(1,'juliet@capulet.example','o','',1),
(2,'juliet@capulet.example','o','',2);
/*!40000 ALTER TABLE `pubsub_state` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `pubsub_subscription_opt`
--

DROP TABLE IF EXISTS `pubsub_subscription_opt`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `pubsub_subscription_opt` (
  `subid` text NOT NULL,
  `opt_name` varchar(32) DEFAULT NULL,
  `opt_value` text NOT NULL,
  UNIQUE KEY `i_pubsub_subscription_opt` (`subid`(32),`opt_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `pubsub_subscription_opt`
--

LOCK TABLES `pubsub_subscription_opt` WRITE;
/*!40000 ALTER TABLE `pubsub_subscription_opt` DISABLE KEYS */;
/*!40000 ALTER TABLE `pubsub_subscription_opt` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `push_session`
--

DROP TABLE IF EXISTS `push_session`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `push_session` (
  `username` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `timestamp` bigint(20) NOT NULL,
  `service` text NOT NULL,
  `node` text NOT NULL,
  `xml` text NOT NULL,
  PRIMARY KEY (`server_host`,`username`(191),`timestamp`),
  UNIQUE KEY `i_push_session_susn` (`server_host`,`username`(191),`service`(191),`node`(191))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `push_session`
--

LOCK TABLES `push_session` WRITE;
/*!40000 ALTER TABLE `push_session` DISABLE KEYS */;
/*!40000 ALTER TABLE `push_session` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `roster_version`
--

DROP TABLE IF EXISTS `roster_version`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `roster_version` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `version` text NOT NULL,
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `roster_version`
--

LOCK TABLES `roster_version` WRITE;
/*!40000 ALTER TABLE `roster_version` DISABLE KEYS */;
/*!40000 ALTER TABLE `roster_version` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `rostergroups`
--

DROP TABLE IF EXISTS `rostergroups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `rostergroups` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `jid` varchar(191) NOT NULL,
  `grp` text NOT NULL,
  KEY `i_rosterg_sh_user_jid` (`server_host`,`username`(75),`jid`(75))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `rostergroups`
--

LOCK TABLES `rostergroups` WRITE;
/*!40000 ALTER TABLE `rostergroups` DISABLE KEYS */;
INSERT INTO `rostergroups` VALUES
('romeo','montague.example','juliet@capulet.example','Love'),
('romeo','montague.example','juliet@capulet.example','Verona'),
('juliet','capulet.example','romeo@montague.example','Montagues'),
('mercutio','montague.example','tybalt@elsewhere.example','Foes');
/*!40000 ALTER TABLE `rostergroups` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `rosterusers`
--

DROP TABLE IF EXISTS `rosterusers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `rosterusers` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `jid` varchar(191) NOT NULL,
  `nick` text NOT NULL,
  `subscription` char(1) NOT NULL,
  `ask` char(1) NOT NULL,
  `askmessage` text NOT NULL,
  `server` char(1) NOT NULL,
  `subscribe` text NOT NULL,
  `type` text DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `i_rosteru_sh_user_jid` (`server_host`,`username`(75),`jid`(75)),
  KEY `i_rosteru_sh_username` (`server_host`,`username`),
  KEY `i_rosteru_sh_jid` (`server_host`,`jid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `rosterusers`
--

LOCK TABLES `rosterusers` WRITE;
/*!40000 ALTER TABLE `rosterusers` DISABLE KEYS */;
INSERT INTO `rosterusers` VALUES
('romeo','montague.example','juliet@capulet.example','Juliet & her balcony','B','N','','N','','item','2026-11-29 01:53:38'),
('juliet','capulet.example','romeo@montague.example','Rómeo','B','N','','N','','item','2026-11-29 01:53:38'),
('mercutio','montague.example','juliet@capulet.example','','N','O','','N','','item','2026-11-29 01:53:38'),
('juliet','capulet.example','mercutio@montague.example','','N','I','','N','','item','2026-11-29 01:53:38'),
('mercutio','montague.example','tybalt@elsewhere.example','King of Cats','N','N','','N','','item','2026-11-29 01:53:38');
/*!40000 ALTER TABLE `rosterusers` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `route`
--

DROP TABLE IF EXISTS `route`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `route` (
  `domain` text NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `node` text NOT NULL,
  `pid` text NOT NULL,
  `local_hint` text NOT NULL,
  UNIQUE KEY `i_route` (`domain`(75),`server_host`(75),`node`(75),`pid`(75)),
  KEY `i_route_domain` (`domain`(75))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `route`
--

LOCK TABLES `route` WRITE;
/*!40000 ALTER TABLE `route` DISABLE KEYS */;
/*!40000 ALTER TABLE `route` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `sm`
--

DROP TABLE IF EXISTS `sm`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sm` (
  `usec` bigint(20) NOT NULL,
  `pid` text NOT NULL,
  `node` text NOT NULL,
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `resource` varchar(191) NOT NULL,
  `priority` text NOT NULL,
  `info` text NOT NULL,
  PRIMARY KEY (`usec`,`pid`(75)),
  KEY `i_sm_node` (`node`(75)),
  KEY `i_sm_sh_username` (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `sm`
--

LOCK TABLES `sm` WRITE;
/*!40000 ALTER TABLE `sm` DISABLE KEYS */;
/*!40000 ALTER TABLE `sm` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `spool`
--

DROP TABLE IF EXISTS `spool`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `spool` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `xml` mediumtext NOT NULL,
  `seq` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY `seq` (`seq`),
  KEY `i_spool_sh_username` (`server_host`,`username`) USING BTREE,
  KEY `i_spool_created_at` (`created_at`) USING BTREE
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `spool`
--

LOCK TABLES `spool` WRITE;
/*!40000 ALTER TABLE `spool` DISABLE KEYS */;
INSERT INTO `spool` VALUES
('juliet','capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'5929520106d5429381a7837003ba7d58\' xmlns=\'jabber:client\'><archived by=\'juliet@capulet.example\' id=\'1795917220320808\' xmlns=\'urn:xmpp:mam:tmp\'/><stanza-id by=\'juliet@capulet.example\' id=\'1795917220320808\' xmlns=\'urn:xmpp:sid:0\'/><delay from=\'capulet.example\' stamp=\'2026-11-29T01:53:40.326427Z\' xmlns=\'urn:xmpp:delay\'>Offline Storage</delay><body>Parting is such sweet sorrow</body></message>',1,'2026-11-29 01:53:40'),
('juliet','capulet.example','<message xml:lang=\'en\' to=\'juliet@capulet.example\' from=\'romeo@montague.example/globe\' type=\'chat\' id=\'db00d0bacad143408227a5481b0f9c37\' xmlns=\'jabber:client\'><archived by=\'juliet@capulet.example\' id=\'1795917220329519\' xmlns=\'urn:xmpp:mam:tmp\'/><stanza-id by=\'juliet@capulet.example\' id=\'1795917220329519\' xmlns=\'urn:xmpp:sid:0\'/><delay from=\'capulet.example\' stamp=\'2026-11-29T01:53:40.330111Z\' xmlns=\'urn:xmpp:delay\'>Offline Storage</delay><body>Good night</body></message>',2,'2026-11-29 01:53:40');
/*!40000 ALTER TABLE `spool` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `sr_group`
--

DROP TABLE IF EXISTS `sr_group`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sr_group` (
  `name` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `opts` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`name`),
  UNIQUE KEY `i_sr_group_sh_name` (`server_host`,`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `sr_group`
--

LOCK TABLES `sr_group` WRITE;
/*!40000 ALTER TABLE `sr_group` DISABLE KEYS */;
/*!40000 ALTER TABLE `sr_group` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `sr_user`
--

DROP TABLE IF EXISTS `sr_user`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `sr_user` (
  `jid` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `grp` varchar(191) NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`jid`,`grp`),
  UNIQUE KEY `i_sr_user_sh_jid_group` (`server_host`,`jid`,`grp`),
  KEY `i_sr_user_sh_jid` (`server_host`,`jid`),
  KEY `i_sr_user_sh_grp` (`server_host`,`grp`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `sr_user`
--

LOCK TABLES `sr_user` WRITE;
/*!40000 ALTER TABLE `sr_user` DISABLE KEYS */;
/*!40000 ALTER TABLE `sr_user` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `users`
--

DROP TABLE IF EXISTS `users`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `users` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `password` text NOT NULL,
  `serverkey` varchar(128) NOT NULL DEFAULT '',
  `salt` varchar(128) NOT NULL DEFAULT '',
  `iterationcount` int(11) NOT NULL DEFAULT 0,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `users`
--

LOCK TABLES `users` WRITE;
/*!40000 ALTER TABLE `users` DISABLE KEYS */;
INSERT INTO `users` VALUES
('juliet','capulet.example','sha256:lKr5ESNL4cesO+b7BquNGwwIBqNFIkMrfEQxTUjqHDI=','WMAv5gjW3uaxYFJq6vFhsapn6BnrUwt03GNM4S7K4Cc=','9jMlZvm2cMk7T1nlLJopvA==',4096,'2026-11-29 01:53:37'),
('nurse','capulet.example','sha256:T/tcV9LONG5JwlMYOK6zfd2H6ShYSBJA4XyQFANywpM=','aP831VsNnh/5rSi8lQvQame7xqG+NlPUAYAQKxZeO4w=','CPVubwmVOGTscP0r0w3c6g==',4096,'2026-11-29 01:53:37'),
('mercutio','montague.example','sha256:f7jaTRCAgNJsJt9ApEBxe8pWAyK2qkdBA0TM9v+UBSg=','YLSlFOxUgshO31JvkDXMXIWPYL+/UQsx2URv7b8+jng=','hFNFe30nu3uYNF2Li6l8TQ==',4096,'2026-11-29 01:53:37'),
('romeo','montague.example','sha256:JM2jaZUSN0fq4SHhLmMONV8MdS68PDsmfGZMsne+mq8=','/Xr0mySu3hvJw4KYRHwIWTW4Q3E63qYh97Q6w2jXDOE=','Z3vFfJthvKX25W/WBU49fg==',4096,'2026-11-29 01:53:37');
/*!40000 ALTER TABLE `users` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `vcard`
--

DROP TABLE IF EXISTS `vcard`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `vcard` (
  `username` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `vcard` mediumtext NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`server_host`,`username`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `vcard`
--

LOCK TABLES `vcard` WRITE;
/*!40000 ALTER TABLE `vcard` DISABLE KEYS */;
INSERT INTO `vcard` VALUES
('juliet','capulet.example','<vCard xmlns=\'vcard-temp\'><FN>Juliet Capulet</FN><NICKNAME>Jule</NICKNAME></vCard>','2026-11-29 01:53:38');
/*!40000 ALTER TABLE `vcard` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `vcard_search`
--

DROP TABLE IF EXISTS `vcard_search`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `vcard_search` (
  `username` varchar(191) NOT NULL,
  `lusername` varchar(191) NOT NULL,
  `server_host` varchar(191) NOT NULL,
  `fn` text NOT NULL,
  `lfn` varchar(191) NOT NULL,
  `family` text NOT NULL,
  `lfamily` varchar(191) NOT NULL,
  `given` text NOT NULL,
  `lgiven` varchar(191) NOT NULL,
  `middle` text NOT NULL,
  `lmiddle` varchar(191) NOT NULL,
  `nickname` text NOT NULL,
  `lnickname` varchar(191) NOT NULL,
  `bday` text NOT NULL,
  `lbday` varchar(191) NOT NULL,
  `ctry` text NOT NULL,
  `lctry` varchar(191) NOT NULL,
  `locality` text NOT NULL,
  `llocality` varchar(191) NOT NULL,
  `email` text NOT NULL,
  `lemail` varchar(191) NOT NULL,
  `orgname` text NOT NULL,
  `lorgname` varchar(191) NOT NULL,
  `orgunit` text NOT NULL,
  `lorgunit` varchar(191) NOT NULL,
  PRIMARY KEY (`server_host`,`lusername`),
  KEY `i_vcard_search_sh_lfn` (`server_host`,`lfn`),
  KEY `i_vcard_search_sh_lfamily` (`server_host`,`lfamily`),
  KEY `i_vcard_search_sh_lgiven` (`server_host`,`lgiven`),
  KEY `i_vcard_search_sh_lmiddle` (`server_host`,`lmiddle`),
  KEY `i_vcard_search_sh_lnickname` (`server_host`,`lnickname`),
  KEY `i_vcard_search_sh_lbday` (`server_host`,`lbday`),
  KEY `i_vcard_search_sh_lctry` (`server_host`,`lctry`),
  KEY `i_vcard_search_sh_llocality` (`server_host`,`llocality`),
  KEY `i_vcard_search_sh_lemail` (`server_host`,`lemail`),
  KEY `i_vcard_search_sh_lorgname` (`server_host`,`lorgname`),
  KEY `i_vcard_search_sh_lorgunit` (`server_host`,`lorgunit`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `vcard_search`
--

LOCK TABLES `vcard_search` WRITE;
/*!40000 ALTER TABLE `vcard_search` DISABLE KEYS */;
INSERT INTO `vcard_search` VALUES
('juliet','juliet','capulet.example','Juliet Capulet','juliet capulet','','','','','','','Jule','jule','','','','','','','','','','','','');
/*!40000 ALTER TABLE `vcard_search` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-29  1:53:50
