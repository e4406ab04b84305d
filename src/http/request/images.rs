//! Images in messages: data URLs, and base64. Nothing is fetched from a network, and pixels are decoded by the engine.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::front::{GivenImage, ImageBytes, shortened};
use crate::vision::Fields;

/// Base64, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const TYPES: [&str; 4] = ["image/jpeg", "image/jpg", "image/png", "image/webp"];

/// Returns the image of a data URL.
///
/// # Errors
/// The reason, if it is another URL, or not base64.
pub(in crate::http) fn image(url: &str) -> Result<GivenImage, String> {
    const FORM: &str = "data:image/jpeg;base64,... (or image/png, image/webp)";
    let data = url
        .get(..5)
        .filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let Some((about, data)) = data.and_then(|_| url[5..].split_once(',')) else {
        let url = shortened(url);
        return Err(format!(
            "the URL is {url:?}; the daemon has no network: send the image itself, as {FORM}"
        ));
    };
    let mut words = about.split(';').map(str::trim);
    let kind = words.next().unwrap_or_default();
    if !is_known(kind) || !words.any(|word| word.eq_ignore_ascii_case("base64")) {
        let about = shortened(about);
        return Err(format!("the data is {about:?}; it must be {FORM}"));
    }
    decoded(data)
}

/// Returns the image of a media type and of data in base64.
///
/// # Errors
/// The reason, if the type is another one, or the data is not base64.
pub(in crate::http) fn image_of(kind: &str, data: &str) -> Result<GivenImage, String> {
    if !is_known(kind) {
        let (kind, known) = (shortened(kind), TYPES.join(", "));
        return Err(format!("the media type is {kind:?}; known are {known}"));
    }
    decoded(data)
}

fn is_known(kind: &str) -> bool {
    TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

fn decoded(data: &str) -> Result<GivenImage, String> {
    let bytes = BASE64.decode(data);
    let bytes = bytes.map_err(|error| format!("the data is not base64: {error}"))?;
    Ok(GivenImage {
        bytes: ImageBytes::Data(bytes.into()),
        fields: Fields::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_urls_of_images_are_read() {
        let read = image("data:image/png;base64,iVBORw0KGgo=").map(|image| image.bytes);
        let bytes: &[u8] = b"\x89PNG\r\n\x1a\n";
        assert_eq!(read, Ok(ImageBytes::Data(bytes.into())));
        assert!(image("DATA:image/JPEG;charset=x;base64,iVBORw0KGgo").is_ok());
        for (url, why) in [
            ("https://example.org/a.png", "no network"),
            ("file:///etc/passwd", "no network"),
            ("data:image/png;base64", "no network"),
            ("data:image/gif;base64,AAAA", "\"image/gif;base64\""),
            ("data:image/png,AAAA", "\"image/png\""),
            ("data:image/png;base64,A*AA", "not base64"),
            ("", "no network"),
            ("données", "no network"),
        ] {
            let refused = image(url).expect_err(url);
            assert!(refused.contains(why), "{url}: {refused}");
        }
        assert!(image_of("image/PNG", "AAAA").is_ok());
        assert!(image_of("image/gif", "AAAA").is_err_and(|why| why.contains("\"image/gif\"")));
        assert!(image_of("image/png", "A*AA").is_err_and(|why| why.contains("not base64")));
    }
}
