//! A picture as HTML: its caption, a place to draw it, a legend, and folded the table from which
//! the page draws it, which is also its text for those that do not see it.

use pagewell_load::measure::Better;
use pagewell_load::report::rate;

use super::escape::escape;
use crate::experiment::picture::plain;
use crate::experiment::{Kind, Line, Panel, Picture, Role};

/// Columns behind the numbers of cases: the factor from before to after.
const FACTORS: [(Role, Role, &str); 2] = [
    (Role::Baseline, Role::Enhanced, "here"),
    (Role::ReportBaseline, Role::ReportEnhanced, "in the report"),
];

/// The figure; `id` is unique.
pub(super) fn figure(picture: &Picture, id: &str) -> String {
    let kind = match picture.kind {
        Kind::Cases => "cases",
        Kind::Points => "points",
        Kind::Lines => "lines",
        Kind::Quantiles => "quantiles",
    };
    let scale = |logarithmic: bool| if logarithmic { "log" } else { "linear" };
    let title = escape(&picture.title);
    let mut text = format!(
        "<figure class=\"card\" data-kind=\"{kind}\" data-place=\"{}\" data-value=\"{}\" \
         data-scale=\"{}\">\n<figcaption><h3 id=\"{id}\">{title}</h3>",
        escape(&picture.place.label),
        escape(&picture.value.label),
        scale(picture.value.logarithmic),
    );
    if !picture.text.is_empty() {
        text += &format!("<p>{}</p>", escape(&picture.text));
    }
    text += "</figcaption>\n";
    text += &legend(picture);
    text += "<div class=\"plots\">";
    for panel in &picture.panels {
        let name = match picture.panels.len() {
            1 => String::new(),
            _ => format!(": {}", escape(&names(panel))),
        };
        text += &format!(
            "<div class=\"plot\" role=\"img\" aria-label=\"{title}{name}. The table below has the \
             numbers.\"></div>"
        );
    }
    text += &format!(
        "</div>\n<details><summary>Table<span class=\"unseen\"> of {title}</span></summary>\n"
    );
    for panel in &picture.panels {
        text += &table(picture, panel, &title);
    }
    text + "</details>\n</figure>\n"
}

fn names(panel: &Panel) -> String {
    let names: Vec<&str> = panel
        .columns
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    names.join(", ")
}

/// The marks and their meaning, as the page draws them.
fn legend(picture: &Picture) -> String {
    let columns = picture.panels.iter().flat_map(|panel| &panel.columns);
    let items = columns.map(|(role, name)| {
        let is_line = matches!(picture.kind, Kind::Lines | Kind::Quantiles);
        let is_bar = picture.kind == Kind::Cases && !picture.value.logarithmic;
        let form = match role {
            _ if is_line => "<line x1=\"1\" y1=\"7\" x2=\"27\" y2=\"7\"/>",
            _ if is_bar => "<rect x=\"2\" y=\"3\" width=\"24\" height=\"8\"/>",
            Role::Baseline | Role::ReportBaseline => "<circle cx=\"14\" cy=\"7\" r=\"5\"/>",
            _ => "<rect x=\"9\" y=\"2\" width=\"10\" height=\"10\"/>",
        };
        format!(
            "<li><svg class=\"{}\" width=\"28\" height=\"14\" aria-hidden=\"true\">{form}</svg>{}\
             </li>",
            role.name(),
            escape(name)
        )
    });
    format!("<ul class=\"legend\">{}</ul>\n", items.collect::<String>())
}

/// End tags of cells and rows are optional; without them long tables are a third shorter.
fn table(picture: &Picture, panel: &Panel, title: &str) -> String {
    let factors = FACTORS.map(|(before, after, name)| {
        let place = |role| panel.columns.iter().position(|(other, _)| *other == role);
        let both = place(before).zip(place(after));
        both.zip(picture.better)
            .map(|(both, better)| (both, better, name))
    });
    let factors: Vec<_> = factors.into_iter().flatten().collect();
    let unit = escape(&picture.value.label);
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of {title}: {}\">\
         <table><caption class=\"unseen\">{title}, {unit}</caption><thead><tr>\
         <th scope=\"col\">{}</th>",
        escape(&names(panel)),
        escape(&picture.place.label)
    );
    for (role, name) in &panel.columns {
        text += &format!(
            "<th scope=\"col\" data-role=\"{}\">{}, {unit}</th>",
            role.name(),
            escape(name)
        );
    }
    for (.., name) in &factors {
        text += &format!("<th scope=\"col\">better {name}</th>");
    }
    text += "</tr></thead>\n<tbody>";
    for line in &panel.lines {
        text += &format!("<tr><th scope=\"row\">{}", escape(&line.place));
        for value in &line.values {
            text += &format!("<td>{}", value.map_or(String::new(), plain));
        }
        for ((before, after), better, _) in &factors {
            let factor = factor(line, *before, *after, *better);
            text += &format!("<td>{}", factor.unwrap_or_default());
        }
        text += "\n";
    }
    text + "</tbody></table></div>\n"
}

/// How many times better a line is after than before.
pub(super) fn factor(line: &Line, before: usize, after: usize, better: Better) -> Option<String> {
    let number = |column: usize| line.values.get(column).copied().flatten();
    let (before, after) = number(before).zip(number(after))?;
    let factor = match better {
        Better::Higher => after / before,
        Better::Lower => before / after,
    };
    let is_one = factor.is_finite() && factor > 0.0;
    is_one.then(|| format!("{} ×", rate(factor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Axis;

    fn picture(better: Better) -> Picture {
        let cases = vec![(
            "a < b".to_owned(),
            [Some(4.0), Some(1.0), Some(6.0), Some(3.0)],
        )];
        let axis = (Axis::logarithmic("s"), better);
        Picture::cases("Seconds & more", "Shorter is better.", axis, cases)
    }

    #[test]
    fn a_figure_has_its_table_and_its_marks() {
        let html = figure(&picture(Better::Lower), "p1");
        for part in [
            "data-kind=\"cases\"",
            "data-scale=\"log\"",
            "<h3 id=\"p1\">Seconds &amp; more</h3>",
            "<th scope=\"row\">a &lt; b<td>4<td>1<td>6<td>3<td>4.00 ×<td>2.00 ×",
            "data-role=\"report-enhanced\"",
            "role=\"img\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(html.matches("<li>").count(), 4);
        assert!(figure(&picture(Better::Higher), "p").contains("<td>0.250 ×"));
    }

    #[test]
    fn what_cannot_be_divided_has_no_factor() {
        let line = |values: [Option<f64>; 2]| Line {
            place: String::new(),
            values: values.to_vec(),
        };
        for values in [
            [Some(0.0), Some(1.0)],
            [Some(1.0), Some(0.0)],
            [None, Some(1.0)],
        ] {
            assert_eq!(factor(&line(values), 0, 1, Better::Higher), None);
        }
        let many = factor(&line([Some(1.0), Some(1234.0)]), 0, 1, Better::Higher);
        assert_eq!(many.as_deref(), Some("1,234 ×"));
    }
}
