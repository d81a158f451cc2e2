use super::*;
use crate::store::password::PasswordError;
use proptest::prelude::*;

fn sample() -> Credentials {
    Credentials::derive("pencil", 4096, b"0123456789abcdef", 1_700_000_000_000_000).unwrap()
}

fn encoded(credentials: &Credentials) -> Vec<u8> {
    let mut record = Vec::new();
    credentials.encode(&mut record);
    record
}

#[test]
fn a_record_reads_back_as_written() {
    for standing in [Standing::InUse, Standing::Applies, Standing::Suspended] {
        let mut credentials = sample().of(Incarnation::drawn(7));
        credentials.set_standing(standing);
        let mut record = encoded(&credentials);
        assert_eq!(Standing::of_record(&record), standing);
        let mut corrected = encoded(&sample().of(Incarnation::drawn(7)));
        standing.correct(&mut corrected);
        assert_eq!(corrected, record);
        assert_eq!(record.len(), 318);
        assert_eq!(Incarnation::of_record(&record), Incarnation(7));
        assert_eq!(Credentials::decode(&record), Ok(credentials));
        for end in 0..record.len() {
            assert_eq!(Credentials::decode(&record[..end]), Err(DecodeError::Malformed), "cut at {end}");
        }
        record.push(0);
        assert_eq!(Credentials::decode(&record), Err(DecodeError::Malformed));
    }
}

/// Each hash function has its own salt and iteration count. What depends on the password does not
/// change when keys are added (XEP-0480).
#[test]
fn keys_that_an_account_lacks_are_gained_once() {
    let all = sample();
    let set = |kind| all.keys(kind).unwrap().clone();
    let only = |kind| Credentials::of_keys([set(kind)], 9).unwrap().of(Incarnation::drawn(7));
    let mut credentials = only(HashKind::Sha1);
    assert_eq!(credentials.hashes().iter().collect::<Vec<_>>(), [HashKind::Sha1]);
    let (identity, anchor) = (credentials.identity(), credentials.anchor().clone());
    let other = Credentials::derive("pen", 5000, &[9; 24], 0).unwrap();
    let gained = other.keys(HashKind::Sha256).unwrap().clone();
    assert!(credentials.gain(gained.clone()) && !credentials.gain(set(HashKind::Sha256)));
    assert_eq!((credentials.identity(), credentials.anchor()), (identity, &anchor));
    let again = Credentials::decode(&encoded(&credentials)).unwrap();
    assert_eq!(again, credentials);
    assert_eq!((again.identity(), again.keys(HashKind::Sha256)), (identity, Some(&gained)));
    assert!(again.keys(HashKind::Sha512).is_none());
    assert_eq!(Incarnation::of_record(&encoded(&again)), Incarnation(7));
    // A new password has the same anchor as records of earlier versions.
    assert_eq!(all.anchor().kind(), HashKind::Sha256);
    assert_eq!(only(HashKind::Sha512).anchor().kind(), HashKind::Sha512);
    assert!(Credentials::of_keys([], 0).is_none());
}

#[test]
fn a_record_without_its_anchor_or_with_keys_twice_is_damaged() {
    let record = encoded(&Credentials::of_keys([sample().keys(HashKind::Sha1).unwrap().clone()], 0).unwrap());
    let (anchor, count, first) = (18, 19, 20);
    assert_eq!((record[anchor], record[count], record[first]), (0, 1, 0));
    for (place, number) in [(anchor, 1), (anchor, 3), (count, 0), (count, 2), (first, 1), (first, 3)] {
        let mut damaged = record.clone();
        damaged[place] = number;
        assert_eq!(Credentials::decode(&damaged), Err(DecodeError::Malformed), "{place} {number}");
    }
    let mut twice = record.clone();
    twice[count] = 2;
    twice.extend_from_slice(&record[first..]);
    assert_eq!(Credentials::decode(&twice), Err(DecodeError::Malformed));
}

/// The stored form is fixed: records must stay readable for ever.
#[test]
fn old_versions_stay_as_they_are() {
    let mut record = vec![1, 0, 0, 0, 0x27, 0x10, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0xaa, 0xbb];
    record.extend((1..=104).collect::<Vec<u8>>());
    let incarnation = [0, 0, 0, 0, 0, 0, 0x11, 0x22];
    let second = [&[2], &record[1..14], &incarnation, &record[14..]].concat();
    for (record, incarnation) in [(&record, Incarnation::UNNUMBERED), (&second, Incarnation(0x1122))] {
        let credentials = Credentials::decode(record).unwrap();
        assert_eq!(credentials.created_us(), 9);
        let (sha1, sha256) = (credentials.keys(HashKind::Sha1).unwrap(), credentials.keys(HashKind::Sha256).unwrap());
        for set in [sha1, sha256] {
            assert_eq!((set.iterations(), set.salt()), (10_000, &[0xaa, 0xbb][..]));
        }
        assert_eq!(sha1.keys().server.as_bytes(), (21..=40).collect::<Vec<u8>>());
        assert_eq!(sha256.keys().stored.as_bytes(), (41..=72).collect::<Vec<u8>>());
        assert!(credentials.keys(HashKind::Sha512).is_none());
        assert_eq!(credentials.anchor(), sha256);
        assert_eq!(credentials.incarnation(), incarnation);
        assert_eq!(Incarnation::of_record(record), incarnation);
        let key = u64::from_be_bytes([41, 42, 43, 44, 45, 46, 47, 48]);
        assert_eq!(credentials.identity(), (incarnation, key));
        assert_eq!(Credentials::decode(&encoded(&credentials)), Ok(credentials));
    }
    record[1] = 0x82;
    assert_eq!(Credentials::decode(&record), Err(DecodeError::UnknownFlags(0x82)));
    record[0] = 4;
    assert_eq!(Credentials::decode(&record), Err(DecodeError::UnknownVersion(4)));
}

#[test]
fn what_cannot_be_derived_from_is_refused() {
    let salt = [1; 16];
    assert_eq!(Credentials::derive("", 4096, &salt, 0), Err(DeriveError::Password(PasswordError::Empty)));
    assert_eq!(Credentials::derive("x", 4095, &salt, 0), Err(DeriveError::Iterations(4095)));
    assert_eq!(Credentials::derive("x", 1_000_001, &salt, 0), Err(DeriveError::Iterations(1_000_001)));
    assert_eq!(Credentials::derive("x", 4096, &[1; 7], 0), Err(DeriveError::SaltLength(7)));
    assert_eq!(Credentials::derive("x", 4096, &[1; 65], 0), Err(DeriveError::SaltLength(65)));
}

#[test]
fn a_decoy_is_the_same_each_time_and_differs_by_name_and_secret() {
    let (a, b) = (SecretKey::new(&[1; 32]), SecretKey::new(&[2; 32]));
    let salt = |secret, name| Credentials::decoy(secret, name, 10_000).anchor().salt().to_vec();
    assert_eq!(Credentials::decoy(&a, "romeo", 10_000), Credentials::decoy(&a, "romeo", 10_000));
    assert_ne!(salt(&a, "romeo"), salt(&a, "juliet"));
    assert_ne!(salt(&a, "romeo"), salt(&b, "romeo"));
    // Both look like a new account, so that they cannot be told apart.
    let (made_up, real) = (Credentials::decoy(&a, "romeo", 10_000), sample());
    for credentials in [made_up, real] {
        let sets: Vec<_> = HashKind::ALL.map(|kind| credentials.keys(kind).unwrap().clone()).into();
        assert!(sets.iter().all(|set| set.salt() == sets[0].salt() && set.salt().len() == 16));
    }
}

#[test]
fn no_secret_is_in_the_debug_form() {
    let (credentials, password) = (sample(), "pencil");
    let text = format!("{credentials:?}");
    assert!(text.contains("Tag(20 bytes)") && !text.contains(password), "{text}");
}

proptest! {
    #[test]
    fn no_record_panics(record in proptest::collection::vec(any::<u8>(), 0..400), version in 0u8..4, kinds in 0u8..4) {
        let mut record = record;
        if version > 0 && record.len() > 20 {
            (record[0], record[1], record[18], record[19]) = (version, 0, kinds, kinds);
        }
        let _ = Incarnation::of_record(&record);
        if let Ok(credentials) = Credentials::decode(&record) {
            let again = encoded(&credentials);
            prop_assert_eq!(Credentials::decode(&again), Ok(credentials));
        }
    }
}
