//! Selects modules, rows and fields: `cpu`, `nic:eth0`, `tcp.in,out`.

use super::Failure;
use crate::schema::{Module, Schema};

/// The default modules: the first table of the talk.
const USUAL: [&str; 3] = ["cpu", "tcp", "memory"];

/// The default fields of these modules.
const USUAL_FIELDS: [&[&str]; 3] = [
    &["user", "sys", "softirq", "iowait", "idle"],
    &["estab", "passive", "in", "out", "retr_pct", "lsn_over"],
    &["cached", "free"],
];

/// One requested module.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wish {
    module: String,
    /// Only these rows.
    rows: Option<Vec<String>>,
    /// Only these fields.
    fields: Option<Vec<String>>,
}

impl Wish {
    /// Parses `module[:row,row][.field,field]`; the name of a row may contain dots, except in its
    /// last part.
    fn of(word: &str, schema: &Schema) -> Result<Wish, Failure> {
        let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
        let end = word.find([':', '.']).unwrap_or(word.len());
        let (module, mut rest) = word.split_at(end);
        let known = schema.module(module).map(|at| &schema.modules[at]);
        let Some(known) = known else {
            let names: Vec<&str> = schema.modules.iter().map(|module| &*module.name).collect();
            return Err(Failure::Usage(format!("there is no module {module:?}; there are: {}", names.join(", "))));
        };
        let has = |fields: &str| fields.split(',').all(|field| known.field(field).is_some());
        let (mut rows, mut fields) = (None, None);
        if let Some(behind) = rest.strip_prefix(':') {
            let Some(word) = &known.instance else {
                return Err(Failure::Usage(format!("{module} has one row only: ask for {module:?}")));
            };
            let (names, behind) = match behind.rsplit_once('.') {
                Some((names, behind)) if has(behind) => (names, Some(behind)),
                _ => (behind, None),
            };
            if names.is_empty() {
                return Err(Failure::Usage(format!("{module}: names no {word}")));
            }
            rows = Some(list(names));
            rest = "";
            fields = behind.map(list);
        }
        if let Some(names) = rest.strip_prefix('.') {
            if let Some(wrong) = names.split(',').find(|field| known.field(field).is_none()) {
                let there: Vec<&str> = known.fields.iter().map(|field| &*field.name).collect();
                return Err(Failure::Usage(format!("{module} has no field {wrong:?}; it has: {}", there.join(", "))));
            }
            fields = Some(list(names));
        }
        Ok(Wish { module: module.to_owned(), rows, fields })
    }
}

/// One module of a schema with the selected fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pick {
    /// The module.
    pub module: Module,
    /// Indices of its fields.
    pub fields: Vec<usize>,
    /// Only these rows, if not all.
    pub rows: Option<Vec<String>>,
}

impl Pick {
    /// Whether it has at most one row, so that lines need no row name.
    pub fn is_flat(&self) -> bool {
        self.module.instance.is_none() || self.rows.as_ref().is_some_and(|rows| rows.len() == 1)
    }

    /// The heading above its columns: `nic:eth0`.
    pub fn title(&self) -> String {
        match &self.rows {
            Some(rows) if self.is_flat() => format!("{}:{}", self.module.name, rows[0]),
            _ => self.module.name.to_string(),
        }
    }
}

/// The selection, independent of a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection(Vec<Wish>);

impl Selection {
    /// Parses the words of a command line, against the existing modules; without words, the
    /// default.
    ///
    /// # Errors
    /// A module or a field does not exist; the existing ones are listed.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>, schema: &Schema) -> Result<Selection, Failure> {
        let mut wishes = Vec::new();
        for word in words {
            if word == "all" {
                let all = schema.modules.iter().map(|module| Wish::of(&module.name, schema));
                wishes.extend(all.collect::<Result<Vec<_>, _>>()?);
            } else {
                wishes.push(Wish::of(word, schema)?);
            }
        }
        if wishes.is_empty() {
            let fields = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
            let usual = USUAL.iter().zip(USUAL_FIELDS);
            wishes.extend(usual.map(|(module, names)| Wish {
                module: (*module).into(),
                rows: None,
                fields: fields(names),
            }));
        }
        Ok(Selection(wishes))
    }

    /// The part of the selection that a schema has.
    pub fn picks(&self, schema: &Schema) -> Vec<Pick> {
        let pick = |wish: &Wish| {
            let module = schema.modules[schema.module(&wish.module)?].clone();
            let fields = match &wish.fields {
                Some(names) => names.iter().filter_map(|name| module.field(name)).collect(),
                None => (0..module.fields.len()).collect(),
            };
            Some(Pick { module, fields, rows: wish.rows.clone() })
        };
        self.0.iter().filter_map(pick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Field;

    fn schema() -> Schema {
        let fields = || vec![Field::count("in", "", 6, ""), Field::count("out", "", 6, "")];
        let modules = vec![Module::single("tcp", "", fields()), Module::single("nic", "", fields()).by("interface", 8)];
        Schema { modules, ..Schema::default() }
    }

    #[test]
    fn modules_rows_and_fields_are_picked() {
        let schema = schema();
        let of = |words: &[&str]| Selection::of(words.iter().copied(), &schema).map(|all| all.picks(&schema));
        let picks = of(&["nic:eth0.100,eth1.out", "tcp.out,in", "nic:eth0.100", "nic.in"]).expect("all are there");
        assert_eq!(
            (picks[0].rows.as_deref(), &picks[0].fields),
            (Some(&["eth0.100".to_owned(), "eth1".into()][..]), &vec![1])
        );
        assert_eq!((picks[1].fields.as_slice(), picks[1].is_flat()), (&[1, 0][..], true));
        assert_eq!((picks[2].title(), picks[2].is_flat(), picks[2].fields.len()), ("nic:eth0.100".into(), true, 2));
        assert_eq!((picks[3].title(), picks[3].is_flat()), ("nic".into(), false));
        assert_eq!(of(&["all"]).expect("they are there").len(), 2);
        for wrong in ["udp", "tcp:eth0", "tcp.sideways", "nic:"] {
            assert!(matches!(of(&[wrong]), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
