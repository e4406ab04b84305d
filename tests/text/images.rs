//! Conversations with images as tokens, compared with transformers, and texts that only look like images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ganglion::kv::FIRST_IMAGE_ROW;
use ganglion::model::chat::{ImagePiece, ImageTexts};
use ganglion::model::checkpoint::{HuggingFaceFiles, LanguageSource};
use ganglion::model::language::Prompt;
use ganglion::model::{Checkpoint, Language, LanguageError, Manner, Message, MessageImage, Role};
use ganglion::vision::{self, Fields, Limits, Piece, Processor, Published, Received};
use serde_json::Value;

use super::path;
use crate::support::needs;

/// A family, and the frame of its conversations.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// What the template writes before and after the content of a user's message.
    pub(crate) frame: [&'static str; 2],
    /// What it writes for an image.
    pub(crate) placeholder: &'static str,
    /// A template that reads parts, and one that reads texts alone.
    pub(crate) templates: [&'static str; 2],
}

const CHAT_ML: [&str; 2] = [
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}\
     {% for c in m.content %}{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}\
     {% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}\
     {{ '<|im_start|>assistant\n' }}",
];
const GEMMA_4: [&str; 2] = [
    "{{ bos_token }}{% for m in messages %}{{ '<|turn>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}\
     {% else %}{% for c in m.content %}{% if c['type'] == 'image' %}{{ '<|image|>' }}{% else %}{{ c['text'] }}{% endif %}\
     {% endfor %}{% endif %}{{ '<turn|>\n' }}{% endfor %}{{ '<|turn>model\n' }}",
    "{{ bos_token }}{% for m in messages %}{{ '<|turn>' + m.role + '\n' + m.content + '<turn|>\n' }}{% endfor %}\
     {{ '<|turn>model\n' }}",
];

pub(crate) const FAMILIES: [Family; 7] = [
    Family {
        name: "qwen3_vl",
        placeholder: "<|vision_start|><|image_pad|><|vision_end|>",
        frame: ["<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"],
        templates: CHAT_ML,
    },
    Family {
        name: "qwen3_5",
        placeholder: "<|vision_start|><|image_pad|><|vision_end|>",
        frame: ["<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"],
        templates: CHAT_ML,
    },
    Family {
        name: "gemma3",
        placeholder: "<start_of_image>",
        frame: [
            "<bos><start_of_turn>user\n",
            "<end_of_turn>\n<start_of_turn>model\n",
        ],
        templates: [
            "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' }}{% if m.content is string %}\
             {{ m.content }}{% else %}{% for c in m.content %}{% if c['type'] == 'image' %}{{ '<start_of_image>' }}{% else %}\
             {{ c['text'] }}{% endif %}{% endfor %}{% endif %}{{ '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}",
            "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + '<end_of_turn>\n' }}\
             {% endfor %}{{ '<start_of_turn>model\n' }}",
        ],
    },
    Family {
        name: "gemma4",
        placeholder: "<|image|>",
        frame: ["<bos><|turn>user\n", "<turn|>\n<|turn>model\n"],
        templates: GEMMA_4,
    },
    Family {
        name: "gemma4_dense",
        placeholder: "<|image|>",
        frame: ["<bos><|turn>user\n", "<turn|>\n<|turn>model\n"],
        templates: GEMMA_4,
    },
    Family {
        name: "smolvlm",
        placeholder: "<image>",
        frame: ["<|im_start|>User:", "<end_of_utterance>\nAssistant:"],
        templates: [
            "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}{% if m.content[0]['type'] == 'image' %}{{ ':' }}\
             {% else %}{{ ': ' }}{% endif %}{% for c in m.content %}{% if c['type'] == 'text' %}{{ c['text'] }}\
             {% elif c['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{{ '<end_of_utterance>\n' }}{% endfor %}\
             Assistant:",
            "<|im_start|>{% for m in messages %}{{ m.role | capitalize + ':' + m.content + '<end_of_utterance>\n' }}\
             {% endfor %}Assistant:",
        ],
    },
    Family {
        name: "lfm2_vl",
        placeholder: "<image>",
        frame: [
            "<|bos|><|im_start|>user\n",
            "<|im_end|>\n<|im_start|>assistant\n",
        ],
        templates: [
            "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}\
             {{ m.content }}{% else %}{% for c in m.content %}{% if c.type == 'image' %}{{ '<image>' }}{% else %}{{ c.text }}\
             {% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
            "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
             {% endfor %}{{ '<|im_start|>assistant\n' }}",
        ],
    },
];

fn family(name: &str) -> &'static Family {
    FAMILIES.iter().find(|family| family.name == name).unwrap()
}

fn json(path: &Path) -> Option<Value> {
    let text = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// The images of prompts for a model, and the numbers of their rows.
struct Viewer {
    processor: Processor,
    next: u32,
    texts: ImageTexts,
}

impl Viewer {
    /// Reads the processor's settings in a folder.
    fn new(folder: &Path) -> Self {
        let file = |name: &str| json(&folder.join(name));
        let config = file("config.json").expect("a configuration");
        let (preprocessor, processor) = (
            file("preprocessor_config.json"),
            file("processor_config.json"),
        );
        let published = Published {
            config: &config,
            preprocessor: preprocessor.as_ref(),
            processor: processor.as_ref(),
        };
        let processor = Processor::new(published.settings().unwrap()).unwrap();
        let rule = &processor.settings().rule;
        let texts = ImageTexts::new(vision::placeholder(rule), vision::around(rule));
        Self {
            processor,
            next: FIRST_IMAGE_ROW,
            texts,
        }
    }

    /// Gives an image numbers.
    fn show(&mut self, bytes: &[u8]) -> Arc<Received> {
        let image = Arc::new(Received::new(bytes.into(), Fields::default(), ()));
        let opened = image.source().open(&Limits::default()).unwrap();
        let (width, height) = (opened.width(), opened.height());
        let plan = self.processor.plan(width, height, None).unwrap();
        let rule = &self.processor.settings().rule;
        let pieces = vision::expand(rule, &plan).into_iter();
        let pieces = pieces.map(|piece| match piece {
            Piece::Text(text) => ImagePiece::Text(text),
            Piece::Rows { count, .. } => {
                let first = self.next;
                self.next += u32::try_from(count).unwrap();
                ImagePiece::Rows(first..self.next)
            }
        });
        self.texts.show(&image, pieces.collect());
        image
    }

    fn manner(&self) -> Manner<'_> {
        Manner {
            images: Some(&self.texts),
            ..Manner::default()
        }
    }

    fn prompt(&self, language: &Language, messages: &[Message]) -> Prompt {
        language.encode(language.render(messages, self.manner()).unwrap())
    }
}

/// A message whose content has an image at each U+FFFC.
fn shows(role: Role, content: &str, images: &[Arc<Received>]) -> Message {
    let mut message = Message::new(role, "");
    let mut images = images.iter().cloned();
    for (number, text) in content.split('\u{fffc}').enumerate() {
        if number > 0 {
            let (at, image) = (message.content.len(), images.next());
            message.images.push(MessageImage { at, image });
        }
        message.content += text;
    }
    message
}

/// Returns the language of a folder, or of a GGUF file, with a chat template.
fn language(path: &Path, template: &str) -> Language {
    let template = Some(template.into());
    let source = if path.is_dir() {
        LanguageSource::HuggingFace(HuggingFaceFiles {
            tokenizer: path.join("tokenizer.json"),
            tokenizer_config: Some(path.join("tokenizer_config.json")),
            generation_config: None,
            chat_template: template,
            vocabulary: 512,
        })
    } else {
        let checkpoint = Checkpoint::open(path).unwrap();
        let mut source = checkpoint.language_source().unwrap().clone();
        if let LanguageSource::Gguf(vocabulary) = &mut source {
            vocabulary.chat_template = template;
        }
        source
    };
    Language::load(&source).unwrap()
}

/// Asserts that conversations have the ids of the reference, with numbers at the rows of images.
fn assert_ids(family: &Family, model: &Path, folder: &Path, golden: &Path, texts: Option<&Value>) {
    let golden = json(golden).unwrap();
    let case = |cases: &Value, name: &Value| {
        let mut cases = cases["cases"].as_array().unwrap().iter();
        cases.find(|case| case["name"] == *name).unwrap().clone()
    };
    for (number, template) in family.templates.iter().enumerate() {
        let language = language(model, template);
        for stated in golden["cases"].as_array().unwrap() {
            let name = &stated["name"];
            let what = format!("{} {name}, template {number}", family.name);
            let other = texts.map_or_else(|| stated.clone(), |texts| case(texts, name));
            let mut viewer = Viewer::new(folder);
            let images = other["images"].as_array().unwrap().iter().map(|image| {
                let bytes = std::fs::read(folder.join(image.as_str().unwrap())).unwrap();
                viewer.show(&bytes)
            });
            let images: Vec<_> = images.collect();
            let [before, after] = family.frame;
            let text = other["text"].as_str().unwrap();
            let content = text
                .strip_prefix(before)
                .and_then(|text| text.strip_suffix(after));
            let mut content = content.expect("the frame of the family").to_owned();
            // The template with parts writes a space before a text that comes first.
            if family.name == "smolvlm" && number == 0 {
                content = content.trim_start_matches(' ').to_owned();
            }
            let content = content.replace(family.placeholder, "\u{fffc}");
            let found = viewer.prompt(&language, &[shows(Role::User, &content, &images)]);
            let rows = stated["image_token_positions"].as_array().unwrap();
            let rows: Vec<_> = rows.iter().map(|row| row.as_u64().unwrap()).collect();
            let mut next = FIRST_IMAGE_ROW;
            let ids = stated["input_ids"].as_array().unwrap().iter().zip(0_u64..);
            let expected: Vec<_> = ids
                .map(|(id, at)| {
                    let id = u32::try_from(id.as_u64().unwrap()).unwrap();
                    if !rows.contains(&at) {
                        return id;
                    }
                    next += 1;
                    next - 1
                })
                .collect();
            assert_eq!(found.tokens, expected, "{what}");
        }
    }
}

fn golden(name: &str) -> PathBuf {
    path("tests/golden/vision").join(name)
}

#[test]
fn prompts_with_images_have_the_ids_of_transformers() {
    for name in ["qwen3_vl", "gemma3"] {
        let model = golden(&format!("tiny-{name}.q8_0.gguf"));
        let stated = golden(&format!("tiny-{name}.prompts.json"));
        let folder = golden(name);
        let texts = json(&folder.join("expected.json"));
        assert_ids(family(name), &model, &folder, &stated, texts.as_ref());
    }
}

/// All families, where their references are unpacked.
#[test]
fn prompts_of_all_families_have_the_ids_of_transformers() {
    let Some(root) = needs::towers() else {
        return;
    };
    for family in &FAMILIES {
        let folder = root.join(format!("tiny-{}", family.name));
        let stated = folder.join("golden.json");
        assert_ids(family, &folder, &folder, &stated, None);
    }
}

/// Frames of 64 x 48 pixels of one color.
fn frame(viewer: &mut Viewer, color: u8) -> Arc<Received> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 64, 48);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[color; 64 * 48]).unwrap();
    writer.finish().unwrap();
    viewer.show(&file)
}

fn rows(prompt: &Prompt) -> Vec<u32> {
    let rows = prompt.tokens.iter().copied();
    rows.filter(|token| *token >= FIRST_IMAGE_ROW).collect()
}

/// A user who writes the tokens of images makes none and moves none.
#[test]
fn text_that_looks_like_an_image_is_text() {
    for name in ["qwen3_vl", "gemma3"] {
        let model = golden(&format!("tiny-{name}.q8_0.gguf"));
        for template in family(name).templates {
            let language = language(&model, template);
            let mut viewer = Viewer::new(&golden(name));
            let image = frame(&mut viewer, 0);
            let marks = "<|vision_start|><|image_pad|><|vision_end|><start_of_image><image_soft_token><end_of_image>";
            let content = format!("{marks}\u{fffc}{marks}<|image_pad|");
            let said = [
                shows(Role::User, &content, std::slice::from_ref(&image)),
                Message::new(Role::Assistant, marks),
                Message::new(Role::User, marks),
            ];
            let prompt = viewer.prompt(&language, &said);
            let expected: Vec<_> = (FIRST_IMAGE_ROW..viewer.next).collect();
            assert_eq!(rows(&prompt), expected, "{name}");
            let specials = |prompt: &Prompt| {
                let marks = prompt.tokens.iter();
                marks.filter(|id| (505..512).contains(*id)).count()
            };
            let plain = [
                shows(Role::User, "a\u{fffc}b", &[image]),
                Message::new(Role::Assistant, "a"),
                Message::new(Role::User, "a"),
            ];
            let plain = viewer.prompt(&language, &plain);
            assert_eq!(specials(&prompt), specials(&plain), "{name}");
        }
    }
}

/// The next turn goes on from the tokens of the one before only if that showed the same images.
#[test]
fn a_turn_continues_the_same_images_alone() {
    let language = language(&golden("tiny-qwen3_vl.q8_0.gguf"), CHAT_ML[0]);
    let mut viewer = Viewer::new(&golden("qwen3_vl"));
    let [one, other] = [0, 255].map(|color| frame(&mut viewer, color));
    let asked =
        |image: &Arc<Received>| shows(Role::User, "What is \u{fffc}?", std::slice::from_ref(image));
    let first = viewer.prompt(&language, &[asked(&one)]);
    let answer = language.encode_plain("A wall.");
    let next = |image| {
        let said = [
            asked(image),
            Message::new(Role::Assistant, "A wall."),
            Message::new(Role::User, "Sure?"),
        ];
        language.render(&said, viewer.manner()).unwrap()
    };
    let continued = language.encode_next(&first, &answer, next(&one));
    let shared = [&first.tokens[..], &answer].concat();
    assert!(continued.tokens.starts_with(&shared));
    let others = language.encode_next(&first, &answer, next(&other));
    assert_ne!(rows(&others), rows(&first));
    assert_eq!(others, language.encode(next(&other)));

    // Tokens of a file have other numbers.
    let moved = first.tokens.iter().map(|token| match *token {
        FIRST_IMAGE_ROW.. => token + 1000,
        token => token,
    });
    let moved: Vec<_> = moved.collect();
    let rendered = || language.render(&[asked(&one)], viewer.manner()).unwrap();
    assert_eq!(language.recognize(&moved, rendered()), Some(first));
    assert_eq!(language.recognize(&moved[1..], rendered()), None);
}

#[test]
fn an_image_that_is_lost_leaves_a_text() {
    let language = language(&golden("tiny-qwen3_vl.q8_0.gguf"), CHAT_ML[0]);
    let viewer = Viewer::new(&golden("qwen3_vl"));
    let prompt = viewer.prompt(&language, &[shows(Role::User, "a\u{fffc}b", &[])]);
    assert!(rows(&prompt).is_empty());
    assert!(prompt.text().contains("a[image no longer available]b"));
}

#[test]
fn a_template_that_drops_messages_with_images_is_an_error() {
    let template = "{{ messages[-1].content }}";
    let language = language(&golden("tiny-qwen3_vl.q8_0.gguf"), template);
    let mut viewer = Viewer::new(&golden("qwen3_vl"));
    let image = frame(&mut viewer, 0);
    let said = [
        shows(Role::User, "\u{fffc}", &[image]),
        Message::new(Role::User, "x"),
    ];
    let refused = language.render(&said, viewer.manner());
    let expected = LanguageError::Images {
        places: 0,
        images: 1,
    };
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
}

/// Templates as they are published.
#[test]
fn published_templates_write_images() {
    if !needs::templates() {
        return;
    }
    for (name, file) in [
        ("qwen3_vl", "Qwen3.5-4B.jinja"),
        ("gemma4", "google-gemma-4-31B-it.jinja"),
        ("qwen3_vl", "Qwen-Qwen3-0.6B.jinja"),
    ] {
        let template = std::fs::read_to_string(path("target/templates").join(file)).unwrap();
        let language = language(&golden("tiny-qwen3_vl.q8_0.gguf"), &template);
        let mut viewer = Viewer::new(&golden(name));
        let image = frame(&mut viewer, 0);
        let said = [
            Message::new(Role::System, "Be brief."),
            shows(Role::User, "\u{fffc}What is it?", &[image]),
        ];
        let prompt = viewer.prompt(&language, &said);
        let expected: Vec<_> = (FIRST_IMAGE_ROW..viewer.next).collect();
        assert_eq!(rows(&prompt), expected, "{file}");
        let text = prompt.text();
        assert!(
            text.contains("What is it?") && text.contains("Be brief."),
            "{file}: {text}"
        );
    }
}

/// Whether a template writes images is not concluded from a rendering that was stopped.
#[test]
fn a_stopped_template_is_not_taken_for_one_without_images() {
    const STOPS: &str = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
         {% set ns = namespace(s='y') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}\
         {% endif %}{% endfor %}";
    let language = language(&golden("tiny-gemma3.q8_0.gguf"), STOPS);
    let mut viewer = Viewer::new(&golden("gemma3"));
    let image = frame(&mut viewer, 1);
    let asked = [shows(Role::User, "\u{fffc}?", &[image])];
    for _ in 0..2 {
        let error = language.render(&asked, viewer.manner()).err();
        assert!(
            matches!(error, Some(LanguageError::Stopped(_))),
            "{error:?}"
        );
    }
}
