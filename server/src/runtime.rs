//! A thread with its own async runtime, beside the shards: for the operator's HTTP, uploads,
//! bytestreams, and requests to back ends. With or without listeners.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use crate::waits;

/// Time after which a failed `accept` is retried: most likely the process is out of descriptors,
/// which is temporary.
pub(crate) const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The thread. Dropping it ends all its tasks.
#[derive(Debug)]
pub(crate) struct Aside {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    /// Starts the thread. It runs `work` and all tasks that it spawns until it is dropped.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &'static str,
        blocking: Blocking,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Aside> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        // Its blocking threads have the same name, as they do the same work.
        let runtime = builder.thread_name(name).max_blocking_threads(blocking.most).enable_all().build()?;
        let (stop, mut stopped) = watch::channel(false);
        let thread = waits::spawn(name, move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped.changed() => {}
                    () = work() => {
                        let _ = stopped.changed().await;
                    }
                }
            });
            // The tasks end with the runtime.
            if !blocking.whole {
                runtime.shutdown_background();
            }
        })?;
        Ok(Aside { stop, thread: Some(thread) })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Blocking threads of a runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    /// Their maximum number.
    pub(crate) most: usize,
    /// Whether shutdown waits for their work.
    pub(crate) whole: bool,
}

/// A thread that serves listeners. Dropping it ends all its connections.
#[derive(Debug)]
pub(crate) struct Listening {
    addresses: Vec<SocketAddr>,
    _aside: Aside,
}

impl Listening {
    /// Serves these listeners, each with its own value.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start<T: Send + 'static, F: Future<Output = ()>>(
        name: &'static str,
        blocking: Blocking,
        listeners: Vec<(TcpListener, T)>,
        serve: impl FnOnce(Vec<(tokio::net::TcpListener, T)>) -> F + Send + 'static,
    ) -> io::Result<Listening> {
        let addresses = listeners.iter().map(|(listener, _)| listener.local_addr()).collect::<io::Result<Vec<_>>>()?;
        for (listener, _) in &listeners {
            listener.set_nonblocking(true)?;
        }
        let aside = Aside::start(name, blocking, move || async move {
            let known =
                |(listener, given): (TcpListener, T)| Some((tokio::net::TcpListener::from_std(listener).ok()?, given));
            serve(listeners.into_iter().filter_map(known).collect()).await;
        })?;
        Ok(Listening { addresses, _aside: aside })
    }

    /// The addresses of its listeners.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// The network from which one client can choose addresses: an IPv4 address itself, the first 64
/// bits of an IPv6 address. Loopback is one address and stays recognisable.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_an_address_of_ipv4_and_64_bits_of_ipv6() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::1"), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_ne!(of("::1"), of("::2"), "which is not of this machine");
    }

    /// Tasks that were spawned on its thread end with it.
    #[test]
    fn dropping_it_ends_all_of_its_tasks() {
        struct Told(std::sync::mpsc::Sender<()>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (told, ended) = std::sync::mpsc::channel();
        let (begun_in, begun) = std::sync::mpsc::channel();
        let aside = Aside::start("aside", Blocking { most: 1, whole: true }, move || async move {
            let told = Told(told);
            tokio::spawn(async move {
                let _told = told;
                let _ = begun_in.send(());
                std::future::pending::<()>().await;
            });
        })
        .expect("a thread");
        begun.recv().expect("it has begun");
        assert!(ended.try_recv().is_err());
        drop(aside);
        assert_eq!(ended.try_recv(), Ok(()));
    }
}
