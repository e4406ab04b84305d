//! Regular expressions for the values of `format`. They may be narrower than the formats.

/// The formats. A `date-time` is a date and a time.
const FORMATS: [(&str, &str); 9] = [
    ("date", DATE),
    ("time", TIME),
    ("duration", DURATION),
    (
        "email",
        r"[A-Za-z0-9_+-]{1,30}(?:\.[A-Za-z0-9_+-]{1,30}){0,3}@[A-Za-z0-9]{1,30}(?:[.-][A-Za-z0-9]{1,30}){1,6}",
    ),
    (
        "hostname",
        r"[A-Za-z0-9]{1,30}(?:[.-][A-Za-z0-9]{1,30}){0,7}",
    ),
    ("ipv4", IPV4),
    (
        "ipv6",
        "(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,2})?::(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,3})?",
    ),
    (
        "uri",
        r"[a-zA-Z][a-zA-Z0-9+.-]*:(?://[A-Za-z0-9._~@-]+(?::[0-9]{1,5})?)?(?:[A-Za-z0-9._~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@/-]*|/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?",
    ),
    (
        "uuid",
        "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    ),
];
const DATE: &str = "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";
const TIME: &str = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const DURATION: &str = "P(?:[0-9]{1,6}W|[0-9]{1,6}[YMD]|[0-9]{1,6}D?T[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S))";
const IPV4: &str =
    r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])";

/// Returns the regular expression for a format.
pub(super) fn regex(format: &str) -> Option<String> {
    if format == "date-time" {
        return Some(format!("{DATE}T{TIME}"));
    }
    let known = FORMATS.iter().find(|(name, _)| *name == format);
    known.map(|(_, regex)| (*regex).to_owned())
}
