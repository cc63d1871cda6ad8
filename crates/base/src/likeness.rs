//! Which name a misspelt one means.

/// Jaro and Winkler; 1 is the same.
const ALIKE_MIN: f64 = 0.75;

/// The known name most like this one, if one is.
#[must_use]
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let alike = known
        .iter()
        .map(|one| (strsim::jaro_winkler(name, one), *one));
    let nearest = alike
        .filter(|(likeness, _)| *likeness >= ALIKE_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, meant)| meant)
}
