//! XML of servers as a bounded tree, without entities of its own. Names have no prefix: servers
//! disagree about name spaces.

use quick_xml::XmlVersion;
use quick_xml::events::Event;
use quick_xml::reader::Reader;

/// What some servers begin with, which is no part of the document.
const MARK: char = '\u{feff}';
const DEPTH_MAX: usize = 16;
/// Elements of a document: six for each of 5,000 objects, four times over.
const ELEMENTS_MAX: usize = 200_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub name: String,
    /// Whether an attribute says that its text is encoded (`Encoded="true"`, of Azure).
    pub is_encoded: bool,
    /// All text directly inside it.
    pub text: String,
    pub inner: Vec<Element>,
}

impl Element {
    pub(crate) fn first(&self, name: &str) -> Option<&Element> {
        self.inner.iter().find(|element| element.name == name)
    }

    /// The text of the first element of a name; empty without.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.first(name).map_or("", |element| &element.text)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.inner
            .iter()
            .filter(move |element| element.name == name)
    }
}

/// Parses a document.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(body: &[u8]) -> Result<Element, String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.trim_start_matches(MARK);
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut elements = 0;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => {
                elements += 1;
                if open.len() >= DEPTH_MAX || elements > ELEMENTS_MAX {
                    return Err("it has too many elements".to_owned());
                }
                open.push(Element {
                    name: start.local_name().into_inner().to_owned(),
                    is_encoded: start.attributes_raw().trim() == r#"Encoded="true""#,
                    ..Element::default()
                });
            }
            Event::End(_) => {
                let closed = open.pop().ok_or("an element ends that did not begin")?;
                match open.last_mut() {
                    Some(outer) => outer.inner.push(closed),
                    None => return Ok(closed),
                }
            }
            Event::Text(text) => add(&mut open, &text.xml_content(XmlVersion::Implicit1_0)),
            Event::CData(text) => add(&mut open, &text.xml_content(XmlVersion::Implicit1_0)),
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref() {
                    Ok(Some(character)) => character,
                    Ok(None) => predefined(&reference.xml_content(XmlVersion::Implicit1_0))
                        .ok_or("it has an entity of its own")?,
                    Err(error) => return Err(error.to_string()),
                };
                add(&mut open, character.encode_utf8(&mut [0; 4]));
            }
            Event::Eof => return Err("it ends too early".to_owned()),
            Event::Empty(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_) => {}
        }
    }
}

fn add(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// The five entities that each document has.
fn predefined(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => None,
    }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            // These would be read as spaces or line ends.
            '\r' => escaped.push_str("&#13;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub code: String,
    pub message: String,
    pub region: Option<String>,
}

pub(crate) fn error(body: &[u8]) -> Option<Said> {
    let start = body.strip_prefix(MARK.to_string().as_bytes());
    let start = start.unwrap_or(body).trim_ascii_start();
    if !start.starts_with(b"<") {
        return None;
    }
    let element = parse(start).ok()?;
    let error = match element.name.as_str() {
        "Error" => &element,
        "ErrorResponse" => element.first("Error")?,
        _ => return None,
    };
    let region = error.text_of("Region").trim();
    Some(Said {
        code: error.text_of("Code").trim().to_owned(),
        message: error.text_of("Message").trim().to_owned(),
        region: (!region.is_empty()).then(|| region.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_a_tree() {
        let body = "<?xml version=\"1.0\"?>\n<!-- c --><D:a xmlns:D=\"x\"><b>1 &lt;&#x41;&#10;</b>\
                    <c/><b><![CDATA[<2>]]></b> </D:a>";
        let element = parse(body.as_bytes()).expect("a document");
        assert_eq!(element.name, "a");
        assert_eq!(element.text_of("b"), "1 <A\n");
        let texts: Vec<&str> = element.all("b").map(|b| b.text.as_str()).collect();
        assert_eq!(texts, ["1 <A\n", "<2>"]);
        assert_eq!(element.first("c").map(|c| c.text.as_str()), Some(""));
        assert_eq!(element.text_of("d"), "");
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = "<a>".repeat(1000);
        let many = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        let laughs = "<!DOCTYPE a [<!ENTITY b \"cccc\">]><a>&b;</a>";
        for body in [
            "",
            "<a>",
            "<a></b>",
            "text",
            &deep,
            &many,
            laughs,
            "<a>&#0;</a>",
            "<a>&#xD800;</a>",
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{:.30}", body);
        }
        assert!(parse(b"<a>\xff</a>").is_err());
    }

    #[test]
    fn texts_survive() {
        let text = " a<b>&\"'\r\n\tc \u{e9}";
        let body = format!("<a>{}</a>", escaped(text));
        assert_eq!(parse(body.as_bytes()).expect("a document").text, text);
    }

    #[test]
    fn errors_are_known_by_their_root() {
        let error_of = |body: &str| error(body.as_bytes()).map(|said| said.code);
        assert_eq!(
            error_of("\n<Error><Code>A</Code></Error>").as_deref(),
            Some("A")
        );
        let wrapped = "<ErrorResponse><Error><Code>B</Code></Error></ErrorResponse>";
        assert_eq!(error_of(wrapped).as_deref(), Some("B"));
        for body in ["", "<Result/>", "{\"Code\": 1}", "<html><Error>"] {
            assert_eq!(error_of(body), None, "{body}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = error(bytes);
            if let Ok(element) = parse(bytes) {
                assert!(element.text.len() <= bytes.len());
            }
        });
    }
}
