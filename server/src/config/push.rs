//! The permitted push services (RFC 8030), and the urgency of pushes.

use throng_engine::limits::NOTIFY_PUSH_SERVICES_MAX;
use throng_engine::web::push::is_service;

use super::kind::{Field, Kind, choice, items};

/// A host of push services, or a suffix of hosts with a leading dot, possibly with a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushService(pub Box<str>);

impl Field for Vec<PushService> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<PushService>> {
        items(parts, NOTIFY_PUSH_SERVICES_MAX, |text| is_service(text).then(|| PushService(text.into())))
    }
    fn show(&self, _: &Kind) -> String {
        match self.as_slice() {
            [] => "off".into(),
            some => some.iter().map(|service| &*service.0).collect::<Vec<_>>().join(","),
        }
    }
}

choice! {
    /// Urgency of pushes (RFC 8030 5.3): a device that saves its battery receives only urgent ones.
    PushUrgency {
        /// On power and Wi-Fi.
        VeryLow = "very-low",
        /// On either.
        Low = "low",
        /// On neither.
        Normal = "normal",
        /// Also with a low battery.
        High = "high",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_services_are_hosts_or_ends_of_hosts() {
        let kind = Kind::PushServices;
        let read = |text: &str| <Vec<PushService>>::read(&[text.to_owned()], &kind).map(|all| all.show(&kind));
        assert_eq!(read("fcm.googleapis.com, .push.apple.com").as_deref(), Some("fcm.googleapis.com,.push.apple.com"));
        assert_eq!((read("localhost:4443").as_deref(), read("off").as_deref()), (Some("localhost:4443"), Some("off")));
        let many = (0..=NOTIFY_PUSH_SERVICES_MAX).map(|at| format!("h{at}.example")).collect::<Vec<_>>().join(",");
        for bad in ["https://fcm.googleapis.com", "a/b", "Upper.example", "a:b", "user@a", "*.example", &many] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
