//! Merges on random vocabularies, compared with the definition: the unchecked code of the `tokenizers` crate is right
//! for every accepted vocabulary.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{decode, load, qwen3_style, spelled};

/// Joins the pair with the lowest rank, the leftmost first, until none is left (Sennrich et al., 2016).
fn merge(text: &str, ranks: &HashMap<(String, String), usize>) -> Vec<String> {
    let mut symbols: Vec<String> = text.bytes().map(|byte| spelled(&[byte])).collect();
    loop {
        let pairs = symbols.windows(2).enumerate();
        let ranked =
            pairs.filter_map(|(at, p)| Some((*ranks.get(&(p[0].clone(), p[1].clone()))?, at)));
        let Some((_, at)) = ranked.min() else {
            return symbols;
        };
        let right = symbols.remove(at + 1);
        symbols[at] += &right;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn merges_follow_their_ranks(
        pairs in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..200),
        words in prop::collection::vec("[aeéß中]{1,40}|🤖{1,9}", 1..20),
    ) {
        let mut vocabulary = qwen3_style();
        vocabulary.merges.clear();
        let mut parts: Vec<String> = "aeéß中🤖".bytes().map(|byte| spelled(&[byte])).collect();
        for (left, right) in pairs {
            let (left, right) = (left.get(&parts).clone(), right.get(&parts).clone());
            let product = format!("{left}{right}");
            let merge = format!("{left} {right}");
            if product.chars().count() > 12 || vocabulary.merges.contains(&merge) {
                continue;
            }
            vocabulary.merges.push(merge);
            if !vocabulary.tokens.contains(&product) {
                vocabulary.tokens.push(product.clone());
                vocabulary.token_types.push(1);
                parts.push(product);
            }
        }
        let ranks: HashMap<_, _> = vocabulary.merges.iter().enumerate().map(|(rank, merge)| {
            let (left, right) = merge.split_once(' ').unwrap();
            ((left.to_owned(), right.to_owned()), rank)
        }).collect();
        let tokens = vocabulary.tokens.clone();
        vocabulary.pre = Some("gpt-2".into());
        let language = load(vocabulary);
        for word in words {
            let expected = merge(&word, &ranks);
            let ids = language.encode_plain(&word);
            let found: Vec<String> = ids.iter().map(|&id| tokens[id as usize].clone()).collect();
            prop_assert_eq!(found, expected, "{}", word);
            prop_assert_eq!(decode(&language, &ids), word);
        }
    }
}
