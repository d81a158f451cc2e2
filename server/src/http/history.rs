//! Recorded data: for plots (`/api/schema`, `/api/series`), and raw (`/api/recording`).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use throng_recorder::clock::wall_ms;
use throng_recorder::read::{Item, items};
use throng_recorder::record::MAGIC_THINNED;
use throng_recorder::recorder::Handle;
use throng_recorder::ring::{self, Part};
use throng_recorder::sar::{Failure, Feed, Files, Plotter, Said, Selection, Series};
use throng_recorder::table::Sample;
use throng_recorder::window::Place;

/// Most points of a plot.
const POINTS_MAX: u64 = 4_000;
/// Default number of points.
const POINTS: u64 = 900;
/// Default time range.
const SHOWN_MS: u64 = 15 * 60 * 1_000;

/// A recorder's last minutes and its files.
#[derive(Clone)]
pub struct History {
    /// The last minutes.
    pub recent: Handle,
    /// The folder of the files.
    pub folder: PathBuf,
}

/// A query.
#[derive(Deserialize, Debug)]
pub(super) struct Query {
    /// Modules, rows and fields in the syntax of `throng sar`, separated by blanks; empty for the
    /// default ones.
    #[serde(default)]
    pick: String,
    /// The beginning, in milliseconds since 1970 (UTC); by default a quarter of an hour before the
    /// end.
    from: Option<u64>,
    /// The end; by default now.
    to: Option<u64>,
    /// Approximate limit for the number of points.
    points: Option<u64>,
}

/// Most bytes of a file per answer.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// The requested part of the last minutes.
#[derive(Deserialize, Debug)]
pub(super) struct Recent {
    /// Only data from this time on, in milliseconds since 1970 (UTC); by default all.
    since: Option<u64>,
    /// The position at which a previous answer ended.
    after: Option<String>,
}

/// Parses a position in the last minutes.
fn place(text: &str) -> Option<Place> {
    let (begun_ms, offset) = text.split_once('-')?;
    Some(Place { begun_ms: begun_ms.parse().ok()?, offset: offset.parse().ok()? })
}

/// The reason for a refused query.
pub(super) struct Refused(StatusCode, String);

impl Refused {
    /// There is nothing to query.
    pub(super) fn absent(why: &str) -> Refused {
        Refused(StatusCode::SERVICE_UNAVAILABLE, why.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        match failure {
            Failure::Usage(text) => Refused(StatusCode::BAD_REQUEST, text),
            Failure::Failed(text) | Failure::InUse(text) => Refused(StatusCode::INTERNAL_SERVER_ERROR, text),
            Failure::Closed => Refused(StatusCode::INTERNAL_SERVER_ERROR, "the recording has ended".into()),
        }
    }
}

/// Samples and marks in bytes that have the file format.
fn said(bytes: &[u8]) -> impl Iterator<Item = Said> {
    items(bytes).into_iter().filter_map(|item| match item {
        Item::Sample(sample) => Some(Said::Sample(sample)),
        Item::Mark(mark) => Some(Said::Mark(mark)),
        // Data in memory is complete; its last record cannot be truncated.
        Item::Damage(_) => None,
    })
}

impl History {
    /// The last sample, from the last segment, which has at most 180.
    fn last(&self) -> Option<Sample> {
        // If the clock went back, all stored data lies in the future.
        let recent = self.recent.since(wall_ms()).unwrap_or_else(|| self.recent.recent());
        said(&recent).filter_map(|said| if let Said::Sample(sample) = said { Some(sample) } else { None }).last()
    }

    /// The picked fields, by the last schema, over a time range; without data before the server's
    /// first sample.
    pub(super) fn series(&self, pick: &str, from_ms: u64, until_ms: u64, points: u64) -> Result<Series, Failure> {
        let Some(last) = self.last() else { return Ok(Series::default()) };
        let selection = Selection::of(pick.split_whitespace(), last.shape.schema())?;
        let mut plotter = Plotter::new(&selection, (from_ms, until_ms), wall_ms(), points);
        // The first interval begins at a sample before the beginning.
        let since_ms = from_ms.saturating_sub(2_000);
        match self.recent.since(since_ms) {
            Some(recent) => _ = said(&recent).all(|said| plotter.take(said)),
            None => {
                let mut files = match Files::open(&self.folder, since_ms, None) {
                    Ok(files) => files,
                    // Recorded in memory only: return all of it.
                    Err(_) => {
                        said(&self.recent.recent()).all(|said| plotter.take(said));
                        return Ok(plotter.finish());
                    }
                };
                while let Some(said) = files.next()? {
                    if !plotter.take(said) {
                        break;
                    }
                }
            }
        }
        Ok(plotter.finish())
    }

    /// The input of the rules in `wrong`.
    pub(super) fn last_seconds(&self) -> Result<Series, Refused> {
        let now = wall_ms();
        Ok(self.series(super::wrong::PICK, now.saturating_sub(super::wrong::LOOK_MS), now, POINTS)?)
    }

    /// Answers `/api/series`.
    pub(super) fn answer(&self, query: &Query) -> Result<Value, Refused> {
        let to = query.to.unwrap_or_else(wall_ms);
        let from = query.from.unwrap_or(to.saturating_sub(SHOWN_MS));
        if from >= to {
            return Err(Refused(StatusCode::BAD_REQUEST, "from has to be before to".into()));
        }
        let points = query.points.unwrap_or(POINTS).clamp(1, POINTS_MAX);
        let series = self.series(&query.pick, from, to, points)?;
        let column = |column: &throng_recorder::sar::Column| {
            let title = if column.row.is_empty() { String::new() } else { format!(":{}", column.row) };
            json!({
                "title": format!("{}{title}.{}", column.module, column.field),
                "module": column.module,
                "row": column.row,
                "field": column.field,
                "unit": column.unit,
                "values": column.values,
            })
        };
        let mark =
            |mark: &throng_recorder::record::Mark| json!({ "at": mark.wall_ms, "kind": mark.kind, "text": mark.text });
        Ok(json!({
            "now": wall_ms(),
            "times": series.times_ms,
            "columns": series.columns.iter().map(column).collect::<Vec<_>>(),
            "thinned": series.thinned,
            "marks": series.marks.iter().map(mark).collect::<Vec<_>>(),
            "damaged": series.damaged,
        }))
    }

    /// Answers `/api/recording`: the files of the ring, oldest first.
    pub(super) fn parts(&self) -> Result<Value, Refused> {
        let part = |part: Part| {
            let bytes = part.path.metadata().map_or(0, |meta| meta.len());
            json!({ "number": part.number, "begun_s": part.begun_s, "bytes": bytes })
        };
        // Without a folder, recordings are in memory only.
        let parts = ring::parts(&self.folder).unwrap_or_default();
        Ok(json!({ "parts": parts.into_iter().map(part).collect::<Vec<_>>() }))
    }

    /// A piece of a file of the ring from an offset on, and the generation of the file: after
    /// thinning, it counts as another file.
    pub(super) fn piece(&self, number: u64, from: u64) -> Result<(Vec<u8>, u8), Refused> {
        let gone = || Refused(StatusCode::NOT_FOUND, "this file does not exist, or no longer exists".into());
        let parts = ring::parts(&self.folder).map_err(|_| gone())?;
        let part = parts.into_iter().find(|part| part.number == number).ok_or_else(gone)?;
        let (mut head, mut piece) = (Vec::new(), Vec::new());
        let read = File::open(&part.path).and_then(|mut file| {
            file.by_ref().take(MAGIC_THINNED.len() as u64).read_to_end(&mut head)?;
            file.seek(SeekFrom::Start(from))?;
            file.take(PIECE_BYTES_MAX).read_to_end(&mut piece)
        });
        match read {
            Ok(_) => Ok((piece, if head == MAGIC_THINNED { 2 } else { 1 })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(gone()),
            Err(error) => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }

    /// The last minutes as a file, or the part after a position, and the position at its end.
    pub(super) fn recent(&self, asked: &Recent) -> Result<(Vec<u8>, String), Refused> {
        let told = match &asked.after {
            None => self
                .recent
                .since_to_end(asked.since.unwrap_or(0))
                .ok_or_else(|| Refused::absent("nothing is recorded yet")),
            Some(after) => {
                let place =
                    place(after).ok_or(Refused(StatusCode::BAD_REQUEST, "not a place in a recording".into()))?;
                let gone = "the server was started anew, or more has come since than it keeps";
                self.recent.after(place).ok_or_else(|| Refused(StatusCode::GONE, gone.into()))
            }
        };
        told.map(|(bytes, end)| (bytes, format!("{}-{}", end.begun_ms, end.offset)))
    }

    /// Answers `/api/schema`: the fields that can be picked.
    pub(super) fn schema(&self) -> Result<Value, Refused> {
        let last = self.last();
        let last = last.ok_or(Refused(StatusCode::SERVICE_UNAVAILABLE, "nothing is recorded yet".into()))?;
        let schema = last.shape.schema();
        let modules: Vec<_> = schema
            .modules
            .iter()
            .zip(last.shape.rows())
            .map(|(module, rows)| {
                let field = |f: &throng_recorder::schema::Field| json!({ "name": f.name, "unit": f.shown_unit(), "help": f.help });
                let fields: Vec<_> = module.fields.iter().map(field).collect();
                json!({ "name": module.name, "help": module.help, "instance": module.instance, "rows": rows, "fields": fields })
            })
            .collect();
        Ok(json!({ "host": schema.origin.host, "program": schema.origin.program, "modules": modules }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_recorder::record::MAGIC;
    use throng_recorder::recorder::{Recorder, Sampler};

    #[test]
    fn a_piece_says_of_which_form_its_file_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let recent = Recorder::new(Sampler::new(Default::default(), Vec::new()), 1 << 16, None).handle();
        let history = History { recent, folder: folder.path().into() };
        let path = folder.path().join("0000000001-20261122T020335Z.rec");
        for (magic, form) in [(MAGIC, 1), (MAGIC_THINNED, 2)] {
            std::fs::write(&path, [magic, &b"what is in it"[..]].concat()).expect("written");
            for (from, wanted) in [(16, &b"what is in it"[..]), (21, b"is in it"), (99, b"")] {
                let piece = history.piece(1, from).unwrap_or_else(|refused| panic!("{}", refused.1));
                assert_eq!(piece, (wanted.to_vec(), form));
            }
        }
        assert!(history.piece(2, 0).is_err());
    }
}
