//! Is any byte of a text odd? Nearly none ever is, so every byte is looked at, sixteen at a time, and the last ones together
//! with some before them: a loop over what does not fill a vector would cost more than all before it.

/// Is any of these bytes `odd`?
#[inline]
pub fn any(text: &[u8], odd: impl Fn(u8) -> bool) -> bool {
    if let Some(last) = text.last_chunk::<16>() {
        let (blocks, _) = text.as_chunks::<16>();
        return blocks.iter().fold(in_block(last, &odd), |found, block| found | in_block(block, &odd));
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return in_block(first, &odd) | in_block(last, &odd);
    }
    text.iter().any(|byte| odd(*byte))
}

#[inline]
fn in_block<const SIZE: usize>(block: &[u8; SIZE], odd: impl Fn(u8) -> bool) -> bool {
    block.iter().fold(0, |found, byte| found | u8::from(odd(*byte))) != 0
}

#[cfg(test)]
mod properties {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::any;

    proptest! {
        #[test]
        fn a_byte_is_found_wherever_it_stands(
            text in proptest::collection::vec(0u8..4, 0..70), wanted in 0u8..6,
        ) {
            prop_assert_eq!(any(&text, |byte| byte == wanted), text.contains(&wanted));
        }

        #[test]
        fn one_odd_byte_among_plain_ones_is_found(length in 1usize..70, place in 0usize..70) {
            let mut text = vec![b'a'; length];
            prop_assert!(!any(&text, |byte| byte == b'!'));
            text[place % length] = b'!';
            prop_assert!(any(&text, |byte| byte == b'!'));
        }
    }
}
