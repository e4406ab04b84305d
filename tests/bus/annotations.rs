//! Annotations for code generators, which only the shipped interface files have.
//!
//! qdbusxml2cpp has no name for a dictionary or a structure without an annotation. gdbus-codegen leaves descriptors out
//! of a method without one.

/// The names of Qt's types. `QVariantMap` is Qt's own; a program declares the others.
const QT: [(&str, &str); 6] = [
    ("a{sv}", "QVariantMap"),
    ("a(sa{sv})", "GanglionMessages"),
    ("a(ss)", "GanglionHistory"),
    ("(uu)", "GanglionReading"),
    ("aa{sv}", "GanglionHolds"),
    ("a{sa{sv}}", "GanglionSessions"),
];
const QT_NAME: &str = "org.qtproject.QtDBus.QtTypeName";

fn qt_name(line: &str) -> Option<&'static str> {
    let kind = attribute(line, "type")?;
    let name = QT.iter().find(|(of, _)| *of == kind).map(|(_, name)| *name);
    let built = kind.contains(['(', '{']);
    assert!(!built || name.is_some(), "Qt needs a name for {kind}");
    name
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.split(&format!(" {name}=\"")).nth(1)?;
    rest.split('"').next()
}

fn annotation(name: &str, value: &str) -> String {
    format!("      <annotation name=\"{name}\" value=\"{value}\"/>")
}

/// Returns the text of an interface as the daemon introspects it, with annotations.
pub(super) fn annotate(xml: &str) -> String {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let mut counts = [0, 0];
    for line in xml.lines() {
        let element = line.trim_start();
        if element.starts_with("<arg ") {
            // Arguments of signals have no direction: they are outputs.
            let (direction, count) = match attribute(line, "direction") {
                Some("in") => ("In", &mut counts[0]),
                _ => ("Out", &mut counts[1]),
            };
            if let Some(name) = qt_name(line) {
                notes.push(annotation(&format!("{QT_NAME}.{direction}{count}"), name));
            }
            *count += 1;
            if attribute(line, "type") == Some("h") {
                notes.push(annotation("org.gtk.GDBus.C.UnixFD", "true"));
            }
        } else if element.starts_with("</method>") || element.starts_with("</signal>") {
            lines.append(&mut notes);
            counts = [0, 0];
        } else if element.starts_with("<property ")
            && let Some(name) = qt_name(line)
        {
            let note = annotation(QT_NAME, name);
            match line.strip_suffix("/>") {
                Some(open) => {
                    lines.extend([format!("{open}>"), note, "    </property>".to_owned()]);
                }
                None => {
                    lines.extend([line.to_owned(), note]);
                }
            }
            continue;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}
