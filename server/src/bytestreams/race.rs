//! Runs two futures at a time in one task.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Which of two futures completed first.
pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// Polls both until one has completed; if both have, the result is the first one.
pub(super) async fn first<A, B>(
    mut one: impl Future<Output = A> + Unpin,
    other: impl Future<Output = B>,
) -> First<A, B> {
    let mut other = pin!(other);
    poll_fn(|context| match Pin::new(&mut one).poll(context) {
        Poll::Ready(ended) => Poll::Ready(First::One(ended)),
        Poll::Pending => other.as_mut().poll(context).map(First::Other),
    })
    .await
}

/// Polls both until both have completed, or one has failed.
pub(super) async fn both(
    one: impl Future<Output = io::Result<()>>,
    other: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_over, mut other_over) = (false, false);
    poll_fn(|context| {
        if !one_over && let Poll::Ready(ended) = one.as_mut().poll(context) {
            ended?;
            one_over = true;
        }
        if !other_over && let Poll::Ready(ended) = other.as_mut().poll(context) {
            ended?;
            other_over = true;
        }
        if one_over && other_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}
