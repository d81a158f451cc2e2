//! Certificates of clients, made by `openssl` (XEP-0178, RFC 6120 13.7.1.4).

use rustls::pki_types::PrivateKeyDer;

use super::*;

/// An authority with its folder and the certificates it issues.
struct Authority {
    dir: TempDir,
}

fn openssl(arguments: &[&str]) {
    let made = Command::new("openssl").args(arguments).output().expect("openssl is installed");
    assert!(made.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
}

const DATABASE: &str = "[ca]\ndefault_ca=a\n[a]\ndatabase=DIR/index.txt\nnew_certs_dir=DIR\nserial=DIR/serial\n\
    default_md=sha256\npolicy=p\ndefault_crl_days=30\ncrlnumber=DIR/crlnumber\nunique_subject=no\n\
    [p]\ncommonName=optional\n";

impl Authority {
    fn new() -> Authority {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(at("index.txt"), "").unwrap();
        std::fs::write(at("serial"), "1000\n").unwrap();
        std::fs::write(at("crlnumber"), "1000\n").unwrap();
        std::fs::write(at("ca.cnf"), DATABASE.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            "-subj",
            "/CN=Verona CA",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout",
            &at("ca.key"),
            "-out",
            &at("ca.pem"),
        ]);
        Authority { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate with this subject and `subjectAltName`, valid for this many days from now.
    fn issue(&self, name: &str, subject: &str, alternative: &str, days: &str) -> Shown {
        let at = |suffix: &str| self.at(&format!("{name}.{suffix}")).to_str().unwrap().to_owned();
        openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            subject,
            "-keyout",
            &at("key"),
            "-out",
            &at("csr"),
        ]);
        let mut extensions = "extendedKeyUsage=clientAuth\n".to_owned();
        if !alternative.is_empty() {
            extensions.push_str(&format!("subjectAltName={alternative}\n"));
        }
        std::fs::write(at("ext"), extensions).unwrap();
        let config = self.at("ca.cnf");
        let (ca, key) = (self.at("ca.pem"), self.at("ca.key"));
        let mut arguments = vec!["ca", "-batch", "-notext", "-config", config.to_str().unwrap(), "-cert"];
        arguments.extend([ca.to_str().unwrap(), "-keyfile", key.to_str().unwrap()]);
        let (csr, pem, ext) = (at("csr"), at("pem"), at("ext"));
        arguments.extend(["-in", &csr, "-out", &pem, "-extfile", &ext]);
        // Expired ones expired in 2020.
        match days {
            "ended" => arguments.extend(["-startdate", "200101000000Z", "-enddate", "200201000000Z"]),
            days => arguments.extend(["-days", days]),
        }
        openssl(&arguments);
        Shown {
            chain: vec![CertificateDer::from_pem_file(at("pem")).unwrap()],
            key: PrivateKeyDer::from_pem_file(at("key")).unwrap(),
        }
    }

    fn revoke(&self, name: &str) {
        let (config, ca, key) = (self.at("ca.cnf"), self.at("ca.pem"), self.at("ca.key"));
        let (config, ca, key) = (config.to_str().unwrap(), ca.to_str().unwrap(), key.to_str().unwrap());
        let common = ["ca", "-config", config, "-cert", ca, "-keyfile", key];
        let pem = self.at(&format!("{name}.pem"));
        openssl(&[&common[..], &["-revoke", pem.to_str().unwrap()]].concat());
        self.list_revoked();
    }

    fn list_revoked(&self) {
        let (config, ca, key) = (self.at("ca.cnf"), self.at("ca.pem"), self.at("ca.key"));
        let crl = self.at("crl.pem");
        openssl(&[
            "ca",
            "-config",
            config.to_str().unwrap(),
            "-cert",
            ca.to_str().unwrap(),
            "-keyfile",
            key.to_str().unwrap(),
            "-gencrl",
            "-out",
            crl.to_str().unwrap(),
        ]);
    }

    fn source(&self, named_by: NamedBy) -> ClientSource {
        let revoked = self.at("crl.pem");
        ClientSource {
            authorities: self.at("ca.pem"),
            revoked: revoked.exists().then_some(revoked),
            named_by,
            domain: "example.org".into(),
        }
    }
}

/// The certificate that a client presents.
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn scene(clients: Option<ClientSource>) -> Scene {
    let dir = TempDir::new().unwrap();
    let source = ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap();
    let certificates = Certificates::load_with(vec![source], clients, TlsOptions::default()).unwrap();
    Scene { dir, certificates }
}

fn client(scene: &Scene, shown: Option<&Shown>, version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(scene.certificate()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    match shown {
        Some(Shown { chain, key }) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
        None => builder.with_no_client_auth(),
    }
}

fn shake(scene: &Scene, config: ClientConfig) -> Result<TlsInfo, TlsFault> {
    let mut pair = Pair::new(config, &scene.certificates.starttls());
    pair.pump()?;
    pair.server_says(b"hello");
    pair.client_says(b"hello");
    pair.pump()?;
    Ok(pair.info.expect("the handshake is done"))
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// id-on-xmppAddr.
fn xmpp(address: &str) -> String {
    format!("otherName:1.3.6.1.5.5.7.8.5;UTF8:{address}")
}

#[test]
fn the_addresses_in_a_clients_certificate_are_reported_rfc_6120_13_7_1_4() {
    let authority = Authority::new();
    let scene = scene(Some(authority.source(NamedBy::Mail)));
    let two = format!("{},DNS:phone,email:nurse@example.org,{}", xmpp("romeo@example.org"), xmpp("juliet@example.org"));
    let shown = authority.issue("romeo", "/CN=romeo", &two, "10");
    for version in VERSIONS {
        let info = shake(&scene, client(&scene, Some(&shown), version)).expect("a good certificate");
        let names = info.client.expect("it was asked for");
        assert_eq!(names.addresses, ["romeo@example.org", "juliet@example.org"]);
        assert!(names.mapped.is_empty(), "the rule is for those without an address");
        // A client without a certificate connects as before.
        assert_eq!(shake(&scene, client(&scene, None, version)).expect("it may have none").client, None);
    }
}

#[test]
fn the_operators_rule_finds_users_where_there_is_no_address_xep_0178_2() {
    let authority = Authority::new();
    let shown = authority.issue("nurse", "/CN=nurse", "email:angelica@example.org,DNS:phone", "10");
    for (named_by, mapped) in [
        (NamedBy::Nothing, None),
        (NamedBy::Mail, Some(vec!["angelica@example.org".to_owned()])),
        (NamedBy::CommonName, Some(vec!["nurse@example.org".to_owned()])),
    ] {
        let scene = scene(Some(authority.source(named_by)));
        let info = shake(&scene, client(&scene, Some(&shown), VERSIONS[1])).expect("a good certificate");
        assert_eq!(info.client.map(|names| names.mapped), mapped);
    }
}

#[test]
fn nobody_is_asked_where_no_authority_is_named() {
    let authority = Authority::new();
    let shown = authority.issue("romeo", "/CN=romeo", &xmpp("romeo@example.org"), "10");
    let scene = scene(None);
    for version in VERSIONS {
        assert_eq!(shake(&scene, client(&scene, Some(&shown), version)).expect("it is not looked at").client, None);
    }
}

#[test]
fn certificates_of_another_authority_ended_or_revoked_ones_end_the_handshake() {
    let (authority, other) = (Authority::new(), Authority::new());
    let address = xmpp("romeo@example.org");
    let good = authority.issue("good", "/CN=romeo", &address, "10");
    let ended = authority.issue("ended", "/CN=romeo", &address, "ended");
    let revoked = authority.issue("revoked", "/CN=romeo", &address, "10");
    let foreign = other.issue("foreign", "/CN=romeo", &address, "10");
    authority.revoke("revoked");
    let scene = scene(Some(authority.source(NamedBy::Nothing)));
    for version in VERSIONS {
        assert!(shake(&scene, client(&scene, Some(&good), version)).is_ok());
        for bad in [&ended, &revoked, &foreign] {
            assert!(shake(&scene, client(&scene, Some(bad), version)).is_err());
        }
    }
}

/// A ticket contains the certificate: a revoked one, or one of a removed authority, is not accepted
/// through it.
#[test]
fn a_ticket_does_not_outlive_what_is_revoked() {
    let authority = Authority::new();
    authority.list_revoked();
    let scene = scene(Some(authority.source(NamedBy::Nothing)));
    for version in VERSIONS {
        let shown = authority.issue(&format!("{:?}", version.version), "/CN=romeo", &xmpp("romeo@example.org"), "10");
        let config = client(&scene, Some(&shown), version);
        assert!(!shake(&scene, config.clone()).expect("good").resumed);
        let info = shake(&scene, config.clone()).expect("by its ticket");
        assert!(info.resumed && info.client.is_some());
        authority.revoke(&format!("{:?}", version.version));
        assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Changed);
        assert!(shake(&scene, config).is_err(), "a whole handshake, in which it is refused");
        assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Unchanged);
    }
}

#[test]
fn files_that_cannot_be_used_are_told() {
    let authority = Authority::new();
    let source = authority.source(NamedBy::Nothing);
    let dir = TempDir::new().unwrap();
    let own = ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap();
    let load = |source: ClientSource| {
        let loaded = Certificates::load_with(vec![own.clone()], Some(source), TlsOptions::default());
        loaded.map(|_| ()).unwrap_err().to_string()
    };
    let missing = ClientSource { authorities: authority.at("none.pem"), ..source.clone() };
    assert!(load(missing).contains("none.pem"));
    let empty = ClientSource { authorities: authority.at("index.txt"), ..source.clone() };
    assert!(load(empty).contains("contains no CA certificate"));
    let key = ClientSource { revoked: Some(authority.at("none.crl")), ..source };
    assert!(load(key).contains("none.crl"));
}
