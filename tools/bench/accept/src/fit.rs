//! A straight line through points, by least squares.

/// The line, and how well the points keep to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// y at x = 0.
    pub(crate) start: f64,
    /// y for each x.
    pub(crate) slope: f64,
    /// Largest distance of a point from the line, in y.
    pub(crate) residual_most: f64,
}

/// The line through these points. A slope needs two different x.
pub(crate) fn line(points: &[(f64, f64)]) -> Line {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let over = |with: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(with).sum::<f64>();
    let slope = over(&|p| (p.0 - x) * (p.1 - y)) / over(&|p| (p.0 - x) * (p.0 - x));
    let start = y - slope * x;
    let residual_most = points.iter().map(|p| (p.1 - start - slope * p.0).abs()).fold(0.0, f64::max);
    Line { start, slope, residual_most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_what_leaves_it_is_told() {
        let straight: Vec<_> = (1..=5).map(|n| (f64::from(n) * 1000.0, 7e6 + 400.0 * f64::from(n) * 1000.0)).collect();
        let found = line(&straight);
        assert!((found.slope - 400.0).abs() < 1e-6 && (found.start - 7e6).abs() < 1e-3, "{found:?}");
        assert!(found.residual_most < 1e-3);
        // (0, 0), (1, 3), (2, 0): the line is y = 1.
        let bent = line(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]);
        assert_eq!((bent.slope, bent.start, bent.residual_most), (0.0, 1.0, 2.0));
    }
}
