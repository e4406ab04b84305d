//! Reads the shape of a vision tower from the `vision_config` of a `config.json`.

use serde_json::Value;

use super::{computed, finite};
use crate::model::architecture::Keys as _;
use crate::model::error::Defect;
use crate::model::tower::family::{self, TowerFamily};
use crate::model::tower::shape::TowerShape;

/// Returns the family and the shape of a tower; `None` if the model has none.
pub(in crate::model::checkpoint) fn read(
    text: &str,
) -> Result<Option<(&'static TowerFamily, TowerShape)>, Defect> {
    let malformed = |error: serde_json::Error| Defect::Malformed(error.to_string());
    let whole: Value = serde_json::from_str(&finite(text)).map_err(malformed)?;
    if !whole.get("vision_config").is_some_and(Value::is_object) {
        return Ok(None);
    }
    computed::refuse_quantized(&whole)?;
    let Some(name) = whole.word("model_type")? else {
        return Err(whole.missing("model_type"));
    };
    let family = family::of_config(&name)?;
    let kind = "vision_config.rope_parameters.rope_type";
    if let Some(kind_of) = whole.word(kind)?
        && !["axial", "default"].contains(&kind_of.as_str())
    {
        return Err(Defect::bad_value(kind, kind_of, "only axial is computed"));
    }
    Ok(Some((family, (family.from_config)(&whole)?)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;
    use crate::model::tower::shape::{Positions, TowerShape};

    fn shape(config: &Value) -> TowerShape {
        let read = read(&config.to_string()).expect("it is supported");
        read.expect("it has a tower").1
    }

    /// Published files leave out keys: the defaults are those of the family's class in transformers.
    #[test]
    fn keys_that_files_leave_out_have_their_defaults() {
        let text = json!({"hidden_size": 960});
        let smolvlm = shape(&json!({
            "model_type": "smolvlm",
            "scale_factor": 4,
            "text_config": text,
            "vision_config": {"hidden_size": 768, "image_size": 512, "patch_size": 16, "num_attention_heads": 12},
        }));
        assert_eq!((smolvlm.blocks, smolvlm.mlp.width), (12, 3072));
        assert_eq!(smolvlm.positions, Positions::Fixed { side: 32 });
        assert_eq!((smolvlm.head_dim, smolvlm.token_width()), (64, 16 * 768));
        let qwen = |model: &str| {
            let shape = shape(&json!({"model_type": model, "vision_config": {}}));
            assert_eq!((shape.blocks, shape.hidden), (27, 1152));
            assert_eq!(shape.positions, Positions::Stretched { side: 48 });
            assert_eq!(shape.projector.text, 3584);
            shape.deepstack
        };
        assert_eq!(qwen("qwen3_vl"), [8, 16, 24]);
        assert!(qwen("qwen3_5").is_empty());
        let gemma4 = shape(&json!({
            "model_type": "gemma4", "text_config": text, "vision_config": {},
        }));
        assert_eq!(gemma4.positions, Positions::Axes { length: 10_240 });
        assert_eq!((gemma4.blocks, gemma4.projector.side), (16, 3));
        let lfm2 = shape(&json!({
            "model_type": "lfm2_vl", "text_config": text, "vision_config": {},
        }));
        assert_eq!(lfm2.positions, Positions::Resized { side: 16 });
        assert_eq!(lfm2.projector.width, Some(2560));
    }

    #[test]
    fn towers_that_are_not_computed_are_refused() {
        let refused = |config: Value| {
            let refused = read(&config.to_string()).expect_err("it is refused");
            refused.to_string()
        };
        let unknown = refused(json!({"model_type": "pixtral", "vision_config": {}}));
        assert!(
            unknown.contains("pixtral") && unknown.contains("qwen3_vl"),
            "{unknown}"
        );
        let act = refused(json!({
            "model_type": "qwen3_vl", "vision_config": {"hidden_act": "quick_gelu"},
        }));
        assert!(act.contains("quick_gelu"), "{act}");
        let stacks = refused(json!({
            "model_type": "qwen3_vl", "vision_config": {"depth": 4, "deepstack_visual_indexes": [1, 9]},
        }));
        assert!(stacks.contains("[1, 9]"), "{stacks}");
        let size = refused(json!({
            "model_type": "qwen3_5", "vision_config": {"hidden_size": 0, "num_heads": 1},
        }));
        assert!(size.contains("hidden size"), "{size}");
        let wide = refused(json!({
            "model_type": "qwen3_5", "vision_config": {"spatial_merge_size": u64::MAX},
        }));
        assert!(wide.contains("side of a token"), "{wide}");
        assert!(
            read(r#"{"model_type": "qwen3"}"#)
                .expect("it is read")
                .is_none()
        );
    }
}
