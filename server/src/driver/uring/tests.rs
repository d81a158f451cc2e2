//! What cannot be seen from outside: operations that are under way in the kernel.

use super::conn::POLLING;
use super::*;
use crate::driver::shared_listener;
use std::net::TcpStream;

/// The kernel ends our direction by a worker of its own, some time after it was asked to, and looks the slot up only then:
/// the FIN must not be able to hit a connection that has the slot by that time.
#[test]
fn a_slot_is_kept_until_its_fin_is_out() {
    let mut driver = Uring::new(&Settings::default()).expect("this host has io_uring");
    let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    driver.listen(listener, ListenerTag(0)).unwrap();
    let (mut accepted, mut closed) = (None, false);
    while accepted.is_none() {
        driver
            .wait(Some(Duration::from_secs(1)), &mut |event| {
                if let Event::Accepted { conn, .. } = event {
                    accepted = Some(conn);
                }
            })
            .unwrap();
    }
    let conn = accepted.unwrap();
    driver.close(conn, Close::AfterSend);
    driver.close(conn, Close::Now);
    // The poll may be over long before the worker gets to the FIN.
    driver.slot(conn.slot).flags &= !POLLING;
    driver.settle(conn.slot);
    assert_eq!(driver.slot(conn.slot).state, State::Closing, "the slot is not given up");
    driver.slot(conn.slot).flags |= POLLING;
    while !closed {
        driver
            .wait(Some(Duration::from_secs(1)), &mut |event| closed |= matches!(event, Event::Closed { .. }))
            .unwrap();
    }
    assert_eq!(driver.slot(conn.slot).state, State::Free);
}
