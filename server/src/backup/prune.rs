//! Removes what no restore within the kept time needs.

use std::time::Duration;

use super::bucket::Bucket;
use super::now_ms;
use super::pieces::{Full, Piece, all_rows, begun_ms, fulls, journal, rows_folder};

/// Removes, of a generation whose newest full piece has just been completed and of those before it,
/// what is needed only for times longer ago than `keep`. Returns the number of removed objects.
///
/// # Errors
/// Why not everything was removed.
pub(super) async fn prune(bucket: &Bucket, current: &str, keep: Duration) -> Result<u64, String> {
    let since_ms = now_ms().saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    let mut gone = Vec::new();
    let mut generations = bucket.folders("").await?;
    generations.retain(|generation| begun_ms(generation).is_some());
    for (at, generation) in generations.iter().enumerate() {
        // A generation was continued until the next one had begun.
        let ended_ms = generations.get(at + 1).and_then(|next| begun_ms(next)).unwrap_or(u64::MAX);
        if generation != current && ended_ms < since_ms {
            gone.extend(bucket.list_some(generation, None, |_| true).await?);
        } else {
            gone.extend(old_of(bucket, generation, since_ms).await?);
        }
    }
    bucket.delete(&gone).await?;
    Ok(gone.len() as u64)
}

/// What is older than the last full piece before `since_ms`. Records of full pieces come first, so
/// an interrupted removal leaves none that lacks its rows.
async fn old_of(bucket: &Bucket, generation: &str, since_ms: u64) -> Result<Vec<String>, String> {
    let complete = bucket.list(&fulls(generation), None).await?;
    let known: Vec<_> = complete.iter().filter_map(|name| Some((name, Full::of_name(name)?))).collect();
    let Some((oldest, (_, first))) = known.iter().rfind(|(_, (time_ms, _))| *time_ms <= since_ms) else {
        return Ok(Vec::new());
    };
    let mut gone: Vec<String> = known.iter().map(|(name, _)| *name).filter(|name| name < oldest).cloned().collect();
    let record = bucket.get(oldest).await?.and_then(|record| serde_json::from_slice::<Full>(&record).ok());
    let full = record.ok_or_else(|| format!("{oldest} cannot be read"))?;
    let kept = rows_folder(generation, full.begun_ms);
    gone.extend(bucket.list_some(&all_rows(generation), None, |name| *name < *kept).await?);
    let is_old = |name: &str| Piece::of_name(name).is_some_and(|piece| piece.end <= *first);
    gone.extend(bucket.list_some(&journal(generation), None, is_old).await?);
    Ok(gone)
}
