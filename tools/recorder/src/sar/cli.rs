//! The command line of `throng sar`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;

use super::course::Course;
use super::feed::{Feed, Files, Said};
use super::host::Host;
use super::place::{Folder, Place};
use super::rates::Moment;
use super::remote::{Http, Remote};
use super::select::{Pick, Selection};
use super::summary::Summary;
use super::text::Text;
use super::time::{Clock, stamp};
use super::{Failure, data, record};
use crate::clock::{self, Stop};
use crate::read::Why;
use crate::schema::{Kind, Origin, Schema};
use crate::table::Sample;
use crate::thin::WHOLE_SAMPLES;

const AFTER: &str = "\
MODULE is the name of a module (see --list), optionally with rows after a colon and fields after \
a dot: cpu, nic:eth0, tcp.in,out, disk:vda.busy,fl_wait. `all` selects all modules. The default is \
CPU, TCP and memory. A TIME is 14:03, 14:03:59, 2026-11-22T14:03:59 (local, or UTC with --utc), \
the same with an offset (..Z), or -10m: ten minutes (s, m, h, d) before the end of the recording.

Rates are means of the interval that ends at the time at the start of the line; levels are as of \
that time; - marks a missing figure. Lines with -- report events: starts, stops, knobs, gaps, \
damage. Old seconds of more than 16 shards, threads, cores, interfaces or disks may be thinned, as \
such a line reports: single rows are then available every tenth second, with rates over ten \
seconds, and their sum, as row `all`, each second (shard:all has it for every second).

Examples:
  throng sar
      this host, a line per second, until Ctrl-C
  throng sar cpu tcp.in,out,retr_pct nic:eth0 -n 10
      ten seconds, side by side
  throng sar record --folder /var/tmp/sar
      record this host, a day or more in 64 MiB, and survive a crash
  throng sar --from /var/tmp/sar -s 14:00 -e 14:05 disk
      five minutes of disks
  throng sar --from /var/tmp/sar -s -1h --summary cpu pressure
      minimum, mean, maximum and percentiles of the last hour
  throng sar --from /var/tmp/sar -i 60 --csv all > day.csv
      everything by the minute, for other programs
  throng sar --data DATA --follow shard
      what a server is recording now
  throng sar --from http://127.0.0.1:5290 --follow shard
      the same over HTTP; from another machine with --token-file, or through a tunnel (ssh -L \
5290:127.0.0.1:5290 HOST), since there is no TLS

Exit codes: 0 done; 1 failed; 2 wrong usage; 4 another recorder writes to the folder; 6 part of \
the recording could not be read, as reported.";

const RECORD: &str = "\
Writes files that never take more than --bytes-max in total: the oldest are deleted. Before that, \
files of many threads, cores, interfaces or disks are thinned, up to a day. Files of earlier runs \
in the folder count and stay readable. kill -9 loses no sample; a power loss loses at most what \
the kernel had not written, three minutes at worst. While the disk is full, recording continues in \
memory, and the gap is marked once there is room again.";

/// The outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything was shown.
    Done,
    /// A part of the recording could not be read, which was reported.
    Partly,
}

/// Settings from the calling program.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Whether JSON is requested.
    pub json: bool,
    /// Columns of a line of text; `None` for those of the terminal, or 120.
    pub columns: Option<usize>,
    /// The request to end.
    pub stop: Arc<Stop>,
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn value(name: &'static str, word: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(word).help(help)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let range = 0.1..=86_400.0;
    range.contains(&seconds).then(|| Duration::from_secs_f64(seconds)).ok_or("0.1 to 86400 seconds".into())
}

fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("write it as 64M or 1G".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let least = crate::ring::BYTES_MIN;
    bytes.filter(|bytes| *bytes >= least).ok_or(format!("at least {}M", least >> 20))
}

/// The command, for a parent that calls [`run`] with its matches. The parent has the flag `--json`.
pub fn command() -> Command {
    let path = |arg: Arg| arg.value_parser(value_parser!(PathBuf));
    let pid = || {
        value("pid", "PID", "Process whose threads, memory and files are shown [default: this one]")
            .value_parser(value_parser!(u32))
    };
    let interval = || Arg::new("interval").long("interval").value_name("SECONDS").value_parser(seconds);
    Command::new("sar")
        .about("Show the activity of this host or a server, second by second, live or recorded")
        .after_help(AFTER)
        .args_conflicts_with_subcommands(true)
        .arg(Arg::new("module").value_name("MODULE").num_args(0..).help("What to show: module[:row,..][.field,..]"))
        .arg(value("from", "FOLDER|FILE|URL", "A recording, or a server's http://HOST:PORT [default: this host, live]"))
        .arg(path(value("data", "DIR", "The recording of the server with this data folder").conflicts_with("from")))
        .arg(path(value("token-file", "FILE", "File with the access token of the server at URL")).requires("from"))
        .arg(Arg::new("start").short('s').long("start").value_name("TIME").allow_hyphen_values(true).help("Start time"))
        .arg(Arg::new("end").short('e').long("end").value_name("TIME").allow_hyphen_values(true).help("End time"))
        .arg(
            interval()
                .short('i')
                .help("Seconds per line, at least the recording's own interval [default: 1 for this host]"),
        )
        .arg(
            Arg::new("count")
                .short('n')
                .long("count")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Number of lines"),
        )
        .arg(flag("follow", "Follow a recording as it grows; without -s, from its last ten seconds"))
        .arg(flag("summary", "Show minimum, mean, maximum and percentiles instead of lines"))
        .arg(flag("csv", "Comma-separated values, for other programs; times are UTC"))
        .arg(flag("utc", "Show and read times as UTC instead of local ones"))
        .arg(flag("list", "Only list modules and fields, with units"))
        .arg(
            value("width", "COLUMNS", "Columns per line [default: the terminal's, or 120]")
                .value_parser(value_parser!(u16).range(40..)),
        )
        .arg(pid().conflicts_with_all(["from", "data"]))
        .subcommand(
            Command::new("record")
                .about("Record this host into a ring of files, until Ctrl-C or SIGTERM")
                .after_help(RECORD)
                .arg(path(value("folder", "DIR", "Folder of the recording [default: ~/.local/state/throng/sar]")))
                .arg(interval().default_value("1").help("Time between samples"))
                .arg(
                    value("bytes-max", "BYTES", "Limit of all files together").value_parser(bytes).default_value("64M"),
                )
                .arg(value("duration", "SECONDS", "End after this time").value_parser(seconds))
                .arg(pid()),
        )
}

/// Runs the command that [`command`] describes; notes go to `err`.
///
/// # Errors
/// Wrong arguments, or the failure.
pub fn run(
    matches: &ArgMatches,
    setting: &Setting,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Outcome, Failure> {
    if let Some(("record", matches)) = matches.subcommand() {
        return record::run(matches, &setting.stop, err).map(|()| Outcome::Done);
    }
    match Reader::new(matches, setting)?.run(out, err) {
        // The reader has closed its end, like `head`.
        Err(Failure::Closed) => Ok(Outcome::Done),
        ended => ended,
    }
}

/// The output format.
enum Form {
    Text(Option<Text>),
    Csv,
    Json,
    Summary(Summary),
}

/// One reading.
struct Reader {
    feed: Box<dyn Feed>,
    selection: Selection,
    clock: Clock,
    since_ms: u64,
    until_ms: u64,
    interval: Duration,
    left: u64,
    columns: usize,
    stop: Arc<Stop>,
    live: bool,
    list: bool,
    json: bool,
    form: Form,
    course: Course,
    /// Modules that are thinned at the current position.
    thinned: Vec<String>,
    schema: Option<Arc<Schema>>,
    /// Notes before the first line.
    early: Vec<(Option<u64>, String)>,
    /// When the previous sample was taken.
    last_ms: Option<u64>,
    outcome: Outcome,
}

impl Reader {
    fn new(matches: &ArgMatches, setting: &Setting) -> Result<Reader, Failure> {
        let clock = Clock::new(matches.get_flag("utc"));
        // A path that is not Unicode is a folder, not an address.
        let folder = matches.get_one::<PathBuf>("data").map(|data| data.join("recorder"));
        let address = matches.get_one::<String>("from").filter(|from| Http::is_address(from));
        let folder = folder.or_else(|| Some(PathBuf::from(matches.get_one::<String>("from")?)));
        let follow = matches.get_flag("follow");
        let (start, end) = (matches.get_one::<String>("start"), matches.get_one::<String>("end"));
        if folder.is_none() && (start.is_some() || end.is_some() || follow) {
            return Err(Failure::Usage(
                "-s, -e and --follow need a recording: name it with --data DIR or --from FOLDER".into(),
            ));
        }
        if setting.json && matches.get_flag("csv") {
            return Err(Failure::Usage("--json and --csv cannot be combined".into()));
        }
        let interval = matches.get_one::<Duration>("interval").copied();
        let list = matches.get_flag("list");
        let (mut since_ms, mut until_ms) = (0, u64::MAX);
        let place = || -> Result<Rc<dyn Place>, Failure> {
            let token_file = matches.get_one::<PathBuf>("token-file").map(PathBuf::as_path);
            Ok(match address {
                Some(address) => Rc::new(Remote::new(Http::new(address, token_file)?)),
                None => Rc::new(Folder::new(folder.clone().unwrap_or_default())),
            })
        };
        let mut feed: Box<dyn Feed> = match &folder {
            None => {
                let pid = matches.get_one::<u32>("pid").copied().unwrap_or_else(std::process::id);
                Box::new(Host::new(pid, interval.unwrap_or(Duration::from_secs(1)), setting.stop.clone()))
            }
            Some(_) => {
                let near_ms = match start.is_some() || end.is_some() {
                    true if follow => clock::wall_ms(),
                    true => Files::at(place()?, u64::MAX, None)?.end_ms()?,
                    false => 0,
                };
                since_ms = match start {
                    Some(start) => clock.read(start, near_ms)?,
                    None if follow => clock::wall_ms().saturating_sub(10_000),
                    None => 0,
                };
                if let Some(end) = end {
                    // An end given as a whole second includes that second.
                    let named = !end.contains('.') && !end.starts_with('-');
                    until_ms = clock.read(end, near_ms)? + if named { 999 } else { 0 };
                }
                if since_ms >= until_ms {
                    let (since, until) = (stamp(since_ms), stamp(until_ms));
                    return Err(Failure::Usage(format!("-s {since} is not before -e {until}")));
                }
                // The interval of the first line begins at an earlier sample.
                Box::new(Files::at(place()?, since_ms.saturating_sub(2_000), follow.then(|| setting.stop.clone()))?)
            }
        };
        let words = matches.get_many::<String>("module").into_iter().flatten().map(String::as_str);
        let schema = feed.schema()?;
        let all = list && matches.get_many::<String>("module").is_none();
        let selection = Selection::of(words.chain(all.then_some("all")), &schema)?;
        let form = match () {
            () if matches.get_flag("summary") => Form::Summary(Summary::default()),
            () if matches.get_flag("csv") => Form::Csv,
            () if setting.json => Form::Json,
            () => Form::Text(None),
        };
        let columns = matches.get_one::<u16>("width").map(|width| usize::from(*width)).or(setting.columns);
        Ok(Reader {
            feed,
            selection,
            clock,
            since_ms,
            until_ms,
            interval: interval.unwrap_or_default(),
            left: matches.get_one("count").copied().unwrap_or(u64::MAX),
            columns: columns.or_else(terminal_columns).unwrap_or(120),
            stop: setting.stop.clone(),
            live: folder.is_none() || follow,
            list,
            json: setting.json,
            form,
            course: Course::default(),
            thinned: Vec::new(),
            schema: None,
            early: Vec::new(),
            last_ms: None,
            outcome: Outcome::Done,
        })
    }

    fn run(mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<Outcome, Failure> {
        if self.list {
            let picks = self.selection.picks(&*self.feed.schema()?);
            list(&picks, self.json, out)?;
            return Ok(Outcome::Done);
        }
        while self.left > 0 && !self.stop.is_set() {
            match self.feed.next()? {
                None => break,
                Some(Said::Waiting) => out.flush()?,
                Some(Said::Mark(mark)) => {
                    if (self.since_ms..=self.until_ms).contains(&mark.wall_ms) {
                        let text = format!("{}: {}", mark.kind, mark.text);
                        let object = json!({ "time": stamp(mark.wall_ms), "mark": mark.kind, "text": mark.text });
                        self.note(Some(mark.wall_ms), &text, &object, out, err)?;
                    }
                }
                Some(Said::Damage(path, damage)) => {
                    // A truncated last second of a killed process is not a failure.
                    if damage.why != Why::CutOff {
                        self.outcome = Outcome::Partly;
                    }
                    let path = path.display().to_string();
                    let text = format!(
                        "{path}: {} bytes from {} on were skipped: {}",
                        damage.bytes, damage.offset, damage.why
                    );
                    let object = json!({ "damage": damage.why.to_string(), "file": path, "offset": damage.offset, "bytes": damage.bytes });
                    self.note(None, &text, &object, out, err)?;
                }
                Some(Said::Sample(sample)) => {
                    if sample.wall_ms() > self.until_ms {
                        // A sample from the future is followed by those recorded after the clock
                        // was corrected.
                        if sample.wall_ms() > clock::wall_ms() {
                            continue;
                        }
                        break;
                    }
                    self.sample(sample, out, err)?;
                }
            }
        }
        match &mut self.form {
            Form::Text(Some(text)) => text.finish(out)?,
            Form::Summary(summary) if self.json => writeln!(out, "{}", summary.json())?,
            Form::Summary(summary) => out.write_all(summary.text().as_bytes())?,
            _ => {}
        }
        for (_, early) in &self.early {
            writeln!(err, "-- {early}")?;
        }
        if self.last_ms.is_none_or(|last_ms| last_ms < self.since_ms) && !self.live {
            writeln!(err, "nothing was recorded in that time")?;
        }
        out.flush()?;
        Ok(self.outcome)
    }

    /// Writes a note beside the numbers.
    fn note(
        &mut self,
        wall_ms: Option<u64>,
        text: &str,
        object: &serde_json::Value,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        match &mut self.form {
            Form::Text(Some(told)) => told.note(wall_ms, text, out),
            Form::Text(None) => {
                self.early.push((wall_ms, text.to_owned()));
                Ok(())
            }
            Form::Json => writeln!(out, "{object}"),
            _ => {
                let time = wall_ms.map_or(String::new(), |at| format!("{} ", self.clock.time(at)));
                writeln!(err, "{time}-- {text}")
            }
        }
    }

    fn sample(&mut self, sample: Sample, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Failure> {
        if self.schema.as_ref().is_none_or(|schema| *schema != *sample.shape.schema()) {
            self.begin(&sample, out, err)?;
        }
        let interval_ms = sample.shape.schema().origin.interval_ms.max(1);
        let wall_ms = sample.wall_ms();
        if let Some(last_ms) = self.last_ms.replace(wall_ms) {
            let passed_ms = wall_ms.saturating_sub(last_ms);
            if passed_ms > (3 * interval_ms).max(interval_ms + 2_000) || wall_ms + interval_ms < last_ms {
                if last_ms >= self.since_ms {
                    let (from, to) = (self.clock.time(last_ms), self.clock.time(wall_ms));
                    let text = format!("nothing is known from {from} to {to}");
                    let object = json!({ "gap": { "from": stamp(last_ms), "to": stamp(wall_ms) } });
                    self.note(Some(wall_ms), &text, &object, out, err)?;
                }
                self.course.part();
            }
        }
        let sample = self.course.take(sample);
        if wall_ms < self.since_ms {
            self.course.begin(sample);
            return Ok(());
        }
        self.tell_thinned(wall_ms, interval_ms, out, err)?;
        let Some(from) = self.course.from() else {
            self.course.begin(sample);
            return Ok(());
        };
        // A deviation of half the recording's interval does not count.
        let passed_us = sample.monotonic_us().saturating_sub(from.monotonic_us());
        let interval_us = self.interval.as_micros() as u64;
        // Where rows are thinned, an interval of several samples ends with one that has them.
        let waits = interval_us >= interval_ms.saturating_mul(1_500) && !self.course.is_whole();
        if passed_us + interval_ms * 500 < interval_us || waits {
            return Ok(());
        }
        if let Some(moment) = self.course.end(sample) {
            self.left -= 1;
            self.tell(&moment, out)?;
        }
        Ok(())
    }

    /// Notes where rows begin to be thinned, and where they are complete again.
    fn tell_thinned(
        &mut self,
        wall_ms: u64,
        interval_ms: u64,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        let thinned = self.course.thinned();
        if thinned == self.thinned {
            return Ok(());
        }
        let every = Duration::from_millis(interval_ms.saturating_mul(WHOLE_SAMPLES)).as_secs_f64();
        let text = match thinned.is_empty() {
            true => "single rows are here each time again".to_owned(),
            false => format!(
                "thinned: single rows of {} are here every {every} s only, with rates of so long; row `all`, their total, each time",
                thinned.join(", ")
            ),
        };
        let object = json!({ "time": stamp(wall_ms), "thinned": thinned });
        self.thinned = thinned;
        self.note(Some(wall_ms), &text, &object, out, err)
    }

    /// The first sample, or one of another recording: another process, host, or set of fields.
    fn begin(&mut self, sample: &Sample, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Failure> {
        let schema = sample.shape.schema();
        let picks = self.selection.picks(schema);
        let first = self.schema.is_none();
        self.schema = Some(schema.clone());
        self.last_ms = None;
        let changed = picks != self.course.picks();
        self.course.pick(&picks);
        let heading = heading(&schema.origin, &self.clock, sample.wall_ms());
        match &mut self.form {
            Form::Csv if changed => data::csv_head(&picks, out)?,
            Form::Csv => {}
            Form::Json => {
                let object = serde_json::to_value(&schema.origin).expect("words and numbers");
                writeln!(out, "{}", json!({ "time": stamp(sample.wall_ms()), "origin": object }))?;
            }
            Form::Summary(summary) => {
                summary.picks(&picks);
                if first && !self.json {
                    writeln!(out, "{heading}")?;
                } else if changed && !first {
                    writeln!(err, "the fields changed at {}: what was before is left out", stamp(sample.wall_ms()))?;
                }
            }
            Form::Text(text) => {
                if changed {
                    if let Some(text) = text {
                        text.finish(out)?;
                    }
                    *text = Some(Text::new(self.clock.clone(), &picks, self.columns, self.live));
                }
                writeln!(out, "{}{heading}\n", if first { "" } else { "\n" })?;
                for (wall_ms, early) in self.early.drain(..) {
                    text.as_mut().expect("begun just now").note(wall_ms, &early, out)?;
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        match &mut self.form {
            Form::Text(text) => text.as_mut().expect("begun with the first sample").moment(moment, out),
            Form::Csv => data::csv_lines(self.course.picks(), moment, out),
            Form::Json => data::json_line(self.course.picks(), moment, out),
            Form::Summary(summary) => {
                summary.add(moment);
                Ok(())
            }
        }
    }
}

/// `host vm, Linux 6.18, 2 cores, process 12; every 1 s; 2026-11-22, times local, UTC+01:00`
fn heading(origin: &Origin, clock: &Clock, wall_ms: u64) -> String {
    let Origin { host, kernel, cores, pid, interval_ms, .. } = origin;
    let every = *interval_ms as f64 / 1000.0;
    let (day, zone) = (clock.day(wall_ms), clock.zone(wall_ms));
    format!("host {host}, Linux {kernel}, {cores} cores, process {pid}; every {every} s; {day}, times {zone}")
}

fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col >= 40).then_some(size.ws_col.into())
}

/// Modules and fields, with units and sentences.
fn list(picks: &[Pick], json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let modules: Vec<_> = picks.iter().map(|pick| &pick.module).collect();
        return writeln!(out, "{}", json!({ "modules": modules }));
    }
    for (at, pick) in picks.iter().enumerate() {
        let module = &pick.module;
        let by = module.instance.as_ref().map_or(String::new(), |instance| format!(" A row a {instance}."));
        writeln!(out, "{}{}: {}{by}", if at > 0 { "\n" } else { "" }, module.name, module.help)?;
        for field in pick.fields.iter().map(|field| &module.fields[*field]) {
            let of = match &field.kind {
                Kind::Gauge => "level".into(),
                Kind::Count => "rate".into(),
                Kind::Share => "share".into(),
                Kind::Time => "time".into(),
                Kind::Quotient { of, by, .. } => format!("{of}/{by}"),
            };
            writeln!(out, "  {:<10} {:<9} {of:<16} {}", field.name, field.shown_unit(), field.help)?;
        }
    }
    Ok(())
}
