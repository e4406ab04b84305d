//! Settings from published files, and the sizes of plans.

use ganglion::vision::{ImageError, Lfm2Vl, Processor, Published, Rule, Settings, SettingsError};
use serde_json::{Value, json};

fn settings(config: &Value, processor: &Value) -> Result<Settings, SettingsError> {
    Published {
        config,
        preprocessor: Some(processor),
        processor: None,
    }
    .settings()
}

/// The families as they are published.
fn published() -> [(&'static str, Value, Settings); 5] {
    let siglip = |patch: u32| json!({"patch_size": patch});
    [
        ("qwen3_vl", json!({}), Settings::qwen()),
        (
            "gemma3",
            json!({"vision_config": siglip(14), "mm_tokens_per_image": 256}),
            Settings::gemma3(),
        ),
        ("gemma4", json!({}), Settings::gemma4()),
        (
            "smolvlm",
            json!({"vision_config": siglip(16), "scale_factor": 4}),
            Settings::smolvlm(),
        ),
        ("lfm2_vl", json!({}), Settings::lfm2_vl()),
    ]
}

#[test]
fn a_file_without_numbers_has_the_published_ones() {
    for (family, mut config, wanted) in published() {
        config["model_type"] = family.into();
        assert_eq!(settings(&config, &json!({})), Ok(wanted), "{family}");
    }
}

#[test]
fn old_names_of_qwens_numbers_are_known() {
    let config = json!({"model_type": "qwen3_5"});
    let old = settings(&config, &json!({"min_pixels": 1024, "max_pixels": 8192})).unwrap();
    let size = json!({"size": {"shortest_edge": 1024, "longest_edge": 8192}});
    assert_eq!(settings(&config, &size), Ok(old));
}

#[test]
fn values_without_a_meaning_are_refused() {
    let config = json!({"model_type": "gemma3", "vision_config": {"patch_size": 14}});
    let refused = |config: &Value, processor: &Value| {
        let made = settings(config, processor).and_then(Processor::new);
        made.expect_err("it is refused").to_string()
    };
    for (processor, wanted) in [
        (json!({"resample": 0}), "resample = 0: it must be 1, 2 or 3"),
        (
            json!({"rescale_factor": 1.0}),
            "rescale_factor = 1.0: it must be 1/255",
        ),
        (
            json!({"image_mean": [0.5]}),
            "image_mean = [0.5]: it must be three numbers",
        ),
        (
            json!({"image_std": [0.5, 0.0, 0.5]}),
            "image_std = [0.5,0.0,0.5]: it must not be zero",
        ),
        (
            json!({"size": {"height": 0}}),
            "size.height = 0: it must be a number from 1 to 16777216",
        ),
        (
            json!({"size": {"height": "a"}}),
            "size.height = \"a\": it must be a number from 1 to 16777216",
        ),
        (
            json!({"size": {"height": 1_000_000}}),
            "size.height = 1000000: it must be at most 8192",
        ),
        (
            json!({"do_pan_and_scan": true}),
            "do_pan_and_scan = true: it must be false or null",
        ),
    ] {
        assert_eq!(
            refused(&config, &processor),
            format!("preprocessor_config.json: {wanted}")
        );
    }
    assert_eq!(
        refused(&config, &json!({"size": {"height": 900}})),
        "the image processor's side is 900; it must be a multiple of 56, the pixels of a token's side: use another conversion of the model"
    );
    assert_eq!(
        refused(&json!({"model_type": "gemma3"}), &json!({})),
        "config.json has no vision_config.patch_size; download the model again"
    );
    let message = refused(&json!({"model_type": "llava"}), &json!({}));
    assert!(
        message
            .starts_with("config.json: model_type = \"llava\": images are supported for qwen3_vl,"),
        "{message}"
    );
}

#[test]
fn settings_that_no_plan_can_be_made_of_are_refused() {
    let wrong = [
        Settings {
            patch: 0,
            ..Settings::qwen()
        },
        Settings {
            merge: 0,
            ..Settings::gemma3()
        },
        Settings {
            repeats: 0,
            ..Settings::qwen()
        },
        Settings {
            rule: Rule::Qwen {
                min_pixels: 2048,
                max_pixels: 1024,
            },
            ..Settings::qwen()
        },
        Settings {
            rule: Rule::Gemma4 { tokens: 0 },
            ..Settings::gemma4()
        },
        Settings {
            rule: Rule::SmolVlm {
                longest: 8192,
                tile: 64,
            },
            ..Settings::smolvlm()
        },
        Settings {
            rule: Rule::SmolVlm {
                longest: 512,
                tile: 0,
            },
            ..Settings::smolvlm()
        },
    ];
    let Rule::Lfm2Vl(numbers) = Settings::lfm2_vl().rule else {
        panic!("its rule")
    };
    let grids = [
        Lfm2Vl {
            tolerance: f64::NAN,
            ..numbers
        },
        Lfm2Vl {
            max_tiles: 1_000_000,
            ..numbers
        },
        Lfm2Vl {
            tile: 500,
            ..numbers
        },
        Lfm2Vl {
            min_tokens: 300,
            ..numbers
        },
    ];
    let grids = grids.map(|numbers| Settings {
        rule: Rule::Lfm2Vl(numbers),
        ..Settings::lfm2_vl()
    });
    for settings in wrong.into_iter().chain(grids) {
        let error = Processor::new(settings.clone()).expect_err(&format!("{settings:?}"));
        assert!(matches!(error, SettingsError::Value { .. }), "{error}");
    }
}

#[test]
fn plans_of_the_published_processors() {
    // Tokens of a camera's frame, of a portrait photograph, and of a thumbnail.
    for (settings, wanted) in [
        (Settings::qwen(), [880, 11_844, 64]),
        (Settings::gemma3(), [256, 256, 256]),
        (Settings::gemma4(), [264, 266, 256]),
        (Settings::smolvlm(), [13 * 64, 13 * 64, 17 * 64]),
        (Settings::lfm2_vl(), [2 * 256 + 252, 6 * 256 + 234, 64]),
    ] {
        let processor = Processor::new(settings).unwrap();
        let sizes = [(1280, 720), (3000, 4032), (64, 64)];
        let tokens =
            sizes.map(|(width, height)| processor.plan(width, height, None).unwrap().tokens());
        assert_eq!(tokens, wanted, "{:?}", processor.settings().rule);
    }
}

#[test]
fn a_cap_holds_or_is_refused() {
    let mut refused = 0;
    for (family, _, settings) in published() {
        let processor = Processor::new(settings).unwrap();
        for (width, height) in [
            (1280, 720),
            (720, 1280),
            (33, 2000),
            (1, 1),
            (4096, 4096),
            (199, 1),
            (65_535, 400),
        ] {
            let usual = processor.plan(width, height, None).unwrap();
            for cap in [1, 16, 64, 100, 256, 300, 1000, 5000] {
                match processor.plan(width, height, Some(cap)) {
                    Ok(plan) => {
                        assert!(plan.tokens() <= cap, "{family} {width} {height} {cap}");
                        // A cap that holds anyway changes nothing.
                        assert!(
                            usual.tokens() > cap || plan == usual,
                            "{family} {width} {height} {cap}"
                        );
                        assert!(plan.tokens() > 0);
                    }
                    Err(ImageError::TooManyTokens { needed, allowed }) => {
                        assert!(needed > allowed && allowed == cap);
                        // The smallest image of these models has more tokens than some caps.
                        let fixed = ["gemma3", "gemma4", "smolvlm"];
                        assert!(
                            fixed.iter().any(|name| family.contains(name)),
                            "{family} {width} {height} {cap}"
                        );
                        refused += 1;
                    }
                    Err(error) => panic!("{family} {width} {height} {cap}: {error}"),
                }
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn long_and_thin_images_are_refused_where_the_model_does() {
    let error = Processor::new(Settings::qwen())
        .unwrap()
        .plan(2001, 10, None)
        .unwrap_err();
    assert_eq!(
        error,
        ImageError::TooLongAndThin {
            width: 2001,
            height: 10,
            limit: 200
        }
    );
    // The others have a size for every image.
    for (_, _, settings) in published().into_iter().skip(1) {
        let plan = Processor::new(settings)
            .unwrap()
            .plan(65_535, 1, None)
            .unwrap();
        assert!((1..20_000).contains(&plan.tokens()), "{}", plan.tokens());
    }
}

#[test]
fn a_line_has_one_row_of_blocks() {
    let processor = Processor::new(Settings::gemma4()).unwrap();
    for (size, wanted) in [((2000, 4), (1, 280)), ((4, 2000), (280, 1))] {
        let plan = processor.plan(size.0, size.1, None).unwrap();
        let tokens = plan.tiles[0].tokens;
        assert_eq!((tokens.rows, tokens.columns), wanted);
    }
}

#[test]
fn a_square_has_more_tiles_if_it_fills_half_of_them() {
    let processor = Processor::new(Settings::lfm2_vl()).unwrap();
    for (side, wanted) in [(1024, 2), (1086, 2), (1087, 3), (2000, 3)] {
        let cut = processor.plan(side, side, None).unwrap().cut.unwrap();
        assert_eq!((cut.rows, cut.columns), (wanted, wanted), "{side}");
    }
}
