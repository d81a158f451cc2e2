//! Columns by module, several modules side by side where they fit, in the style of `sar`.

use std::io::{self, Write};

use super::number::fit;
use super::rates::Moment;
use super::select::Pick;
use super::time::Clock;

/// Lines after which the heading is repeated.
const PAGE: usize = 30;

/// `HH:MM:SS`
const TIME: usize = 8;

/// Columns of one pick.
struct Columns {
    pick: usize,
    /// Index among the pick's numbers, and width.
    fields: Vec<(usize, usize)>,
}

/// Columns side by side: flat picks, or one with many rows.
struct Band {
    columns: Vec<Columns>,
    /// Width of the row names; 0 for flat picks.
    names: usize,
    /// Sum and count of each number of each row, for the mean: rows by name in order of appearance.
    sums: Vec<(String, Vec<(f64, u64)>)>,
    /// Deferred output: bands follow one another.
    kept: String,
    lines: usize,
}

/// Writes moments as text.
pub(super) struct Text {
    clock: Clock,
    picks: Vec<Pick>,
    bands: Vec<Band>,
    /// Whether each moment is written at once, with all bands.
    live: bool,
    day: String,
}

fn width(pick: &Pick, place: usize) -> usize {
    let field = &pick.module.fields[pick.fields[place]];
    field.name.len().max(field.width.into()).max(field.shown_unit().len())
}

impl Text {
    pub(super) fn new(clock: Clock, picks: &[Pick], columns_max: usize, live: bool) -> Text {
        let room = columns_max.saturating_sub(TIME);
        let mut bands: Vec<Band> = Vec::new();
        let band = |names| Band { columns: Vec::new(), names, sums: Vec::new(), kept: String::new(), lines: 0 };
        let mut used = room;
        let mut open = false;
        for (at, pick) in picks.iter().enumerate() {
            let names = if pick.is_flat() { 0 } else { 9 };
            let mut rest = (0..pick.fields.len()).peekable();
            // A gap of two between modules, of one between columns. A module that does not fit
            // beside the others begins a band, and one wider than a line continues in the next.
            let whole: usize = rest.clone().map(|field| width(pick, field) + 1).sum::<usize>() + 1;
            if !open || names > 0 || used + whole > room {
                bands.push(band(names));
                used = names;
            }
            while rest.peek().is_some() {
                let mut fields = Vec::new();
                while let Some(field) =
                    rest.next_if(|field| fields.is_empty() || used + width(pick, *field) + 2 <= room)
                {
                    used += width(pick, field) + 1;
                    fields.push((field, width(pick, field)));
                }
                bands.last_mut().expect("one was begun").columns.push(Columns { pick: at, fields });
                used += 1;
                if rest.peek().is_some() {
                    bands.push(band(names));
                    used = names;
                }
            }
            open = names == 0;
        }
        Text { clock, picks: picks.to_vec(), bands, live, day: String::new() }
    }

    fn head(&self, band: &Band) -> String {
        let (mut titles, mut names, mut units) = (String::new(), String::new(), String::new());
        for text in [&mut titles, &mut names, &mut units] {
            *text = " ".repeat(TIME + band.names);
        }
        for columns in &band.columns {
            let pick = &self.picks[columns.pick];
            let whole: usize = columns.fields.iter().map(|(_, width)| width + 1).sum();
            titles += &format!("  {:-<width$}", format!("{} ", pick.title()), width = whole - 1);
            for text in [&mut names, &mut units] {
                text.push(' ');
            }
            for (field, width) in &columns.fields {
                let field = &pick.module.fields[pick.fields[*field]];
                names += &format!(" {:>width$}", field.name);
                units += &format!(" {:>width$}", field.shown_unit());
            }
        }
        format!("{}\n{}\n{}\n", titles.trim_end(), names.trim_end(), units.trim_end())
    }

    fn line(&self, band: &Band, first: &str, name: &str, number: &dyn Fn(usize, usize) -> Option<f64>) -> String {
        let mut line = format!("{first:TIME$}");
        if band.names > 0 {
            line += &format!(" {name:<width$}", width = band.names - 1);
        }
        for (at, columns) in band.columns.iter().enumerate() {
            line.push(' ');
            let pick = &self.picks[columns.pick];
            for (place, (field, width)) in columns.fields.iter().enumerate() {
                let value = number(at, place);
                line += &format!(" {:>width$}", fit(value, &pick.module.fields[pick.fields[*field]], *width));
            }
        }
        line.push('\n');
        line
    }

    /// Writes a note beside the numbers.
    pub(super) fn note(&mut self, wall_ms: Option<u64>, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let time = wall_ms.map_or(" ".repeat(TIME), |at| self.clock.time(at));
        writeln!(out, "{time}  -- {text}")
    }

    pub(super) fn moment(&mut self, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let day = self.clock.day(moment.wall_ms);
        if day != self.day {
            if !self.day.is_empty() {
                self.note(None, &format!("{day} ({})", self.clock.zone(moment.wall_ms)), out)?;
            }
            self.day = day;
        }
        let time = self.clock.time(moment.wall_ms);
        let mut bands = std::mem::take(&mut self.bands);
        let many = bands.len() > 1 || bands.iter().any(|band| band.names > 0);
        for (at, band) in bands.iter_mut().enumerate() {
            let mut text = String::new();
            if band.lines.is_multiple_of(PAGE) || self.live && many {
                text += if band.lines > 0 || self.live && at > 0 { "\n" } else { "" };
                text += &self.head(band);
                band.lines = 0;
            }
            band.lines += 1;
            let rows = band.columns.first().map_or(&[][..], |columns| &moment.rows[columns.pick]);
            let flat = band.names == 0;
            for (row, name) in
                rows.iter().map(|(name, _)| name.as_str()).chain((flat && rows.is_empty()).then_some("")).enumerate()
            {
                let value = |at: usize, place: usize| {
                    let columns: &Columns = &band.columns[at];
                    moment.rows[columns.pick].get(row).and_then(|(_, numbers)| numbers[columns.fields[place].0])
                };
                text += &self.line(band, &time, name, &value);
                let numbers: Vec<Option<f64>> = (0..band.columns.len())
                    .flat_map(|at| (0..band.columns[at].fields.len()).map(move |place| (at, place)))
                    .map(|(at, place)| value(at, place))
                    .collect();
                gather(&mut band.sums, name, &numbers);
            }
            match self.live || at == 0 {
                true => out.write_all(text.as_bytes())?,
                false => band.kept += &text,
            }
        }
        self.bands = bands;
        Ok(())
    }

    /// Writes the deferred output, and the means.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for (at, band) in self.bands.iter().enumerate() {
            if band.sums.is_empty() {
                continue;
            }
            if at > 0 {
                write!(out, "\n{}", if self.live { self.head(band) } else { band.kept.clone() })?;
            }
            for (name, sums) in &band.sums {
                let mut first = Vec::new();
                let mut next = 0;
                for columns in &band.columns {
                    first.push(next);
                    next += columns.fields.len();
                }
                let mean = |at: usize, place: usize| {
                    let (sum, count) = sums[first[at] + place];
                    (count > 0).then(|| sum / count as f64)
                };
                out.write_all(self.line(band, "mean", name, &mean).as_bytes())?;
            }
        }
        Ok(())
    }
}

fn gather(sums: &mut Vec<(String, Vec<(f64, u64)>)>, name: &str, numbers: &[Option<f64>]) {
    let at = sums.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        sums.push((name.to_owned(), vec![(0.0, 0); numbers.len()]));
        sums.len() - 1
    });
    for ((sum, count), number) in sums[at].1.iter_mut().zip(numbers) {
        if let Some(number) = number {
            *sum += number;
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Module};

    fn picks() -> [Pick; 3] {
        let cpu = Module::single("cpu", "", vec![Field::share("user", ""), Field::share("idle", "")]);
        let tcp = Module::single("tcp", "", vec![Field::count("in", "seg", 7, ""), Field::gauge("estab", "", 5, "")]);
        let nic = Module::single("nic", "", vec![Field::count("rx", "pkt", 6, "")]).by("interface", 4);
        [cpu, tcp, nic].map(|module| Pick { fields: (0..module.fields.len()).collect(), module, rows: None })
    }

    fn told(columns_max: usize, live: bool) -> String {
        let picks = picks();
        let mut text = Text::new(Clock::new(true), &picks, columns_max, live);
        let mut out = Vec::new();
        for second in 1..=2_u32 {
            let number = f64::from(second);
            let rows = vec![
                vec![(String::new(), vec![Some(number), Some(100.0 - number)])],
                vec![(String::new(), vec![Some(1000.0 * number), None])],
                vec![("eth0".to_owned(), vec![Some(number)]), ("lo".to_owned(), vec![Some(0.0)])],
            ];
            let moment = Moment { wall_ms: u64::from(second) * 1000, seconds: 1.0, rows };
            text.moment(&moment, &mut out).expect("memory");
        }
        text.note(Some(2000), "knob: turn_length 1", &mut out).expect("memory");
        text.finish(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn modules_stand_side_by_side_where_they_fit() {
        let wanted = "          cpu ---------  tcp ---------
            user   idle       in estab
               %      %    seg/s
00:00:01    1.00  99.00     1000     -
00:00:02    2.00  98.00     2000     -
00:00:02  -- knob: turn_length 1
mean        1.50  98.50     1500     -

                   nic --
                       rx
                    pkt/s
00:00:01 eth0        1.00
00:00:01 lo          0.00
00:00:02 eth0        2.00
00:00:02 lo          0.00
mean     eth0        1.50
mean     lo          0.00
";
        // Trailing blanks do not matter.
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&told(80, false)), trimmed(wanted));
        let narrow = told(30, false);
        assert!(narrow.lines().all(|line| line.len() <= 30 || line.contains("--")), "{narrow}");
        assert!(narrow.find("tcp").expect("told") > narrow.find("mean").expect("told"), "{narrow}");
        let live = told(80, true);
        assert_eq!(live.matches("nic --\n").count(), 3, "{live}");
    }
}
