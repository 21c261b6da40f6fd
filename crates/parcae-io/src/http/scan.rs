//! Searching bytes, eight at a time.
//!
//! The bytes of a word are compared at once: a byte's highest bit in the result says whether it is
//! a hit. Borrows make hits behind the first one uncertain, and the first one, which is the lowest,
//! is all that is used.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// The bytes of the word that are zero: the first one is certain.
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// The bytes of the word that are below a number, which is at most 128: the first one is certain.
fn below(word: u64, end: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(end)) & !word & HIGH
}

/// The position of the first byte that is a hit, by a test of words and one of single bytes. The
/// last word overlaps the one before.
fn first(bytes: &[u8], hits: impl Fn(u64) -> u64, is_hit: impl Fn(u8) -> bool) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = hits(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(number * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    if let (Some(word), false) = (bytes.last_chunk::<8>(), rest.is_empty()) {
        let found = hits(u64::from_le_bytes(*word));
        return (found != 0).then(|| bytes.len() - 8 + found.trailing_zeros() as usize / 8);
    }
    rest.iter().position(|byte| is_hit(*byte))
}

/// The position of the first byte with this value.
pub(super) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let same = ONES * u64::from(byte);
    first(bytes, |word| zeros(word ^ same), |other| other == byte)
}

/// Whether a byte may be part of the value of a field.
pub(super) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// How many of the first bytes may be part of a value.
pub(super) fn text(bytes: &[u8]) -> usize {
    const DELETE: u64 = ONES * 0x7f;
    let mut at = 0;
    loop {
        // A tab is a hit, too: one is rare.
        let found = first(
            &bytes[at..],
            |word| below(word, b' ') | zeros(word ^ DELETE),
            |byte| !is_text(byte) || byte == b'\t',
        );
        let Some(found) = found else { return bytes.len() };
        at += found;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
}

/// Whether each byte may be part of a token.
static TOKEN: [bool; 256] = {
    let mut is_token = [false; 256];
    let mut byte = 0_u8;
    loop {
        let is_sign = matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        is_token[byte as usize] = byte.is_ascii_alphanumeric() || is_sign;
        if byte == u8::MAX {
            break is_token;
        }
        byte += 1;
    }
};

pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// How many of the first bytes may be part of a token.
pub(super) fn token(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !is_token(*byte)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place of a text that is a few words long, beside each neighbour that could
    /// hide or fake it.
    #[test]
    fn words_find_what_single_bytes_do() {
        for byte in 0..=u8::MAX {
            for before in [0, 1, b'\t', b'\n', b'\r', 0x1f, b' ', b'a', 0x7e, 0x7f, 0x80, 0xff] {
                for place in 0..20 {
                    let mut bytes = [before; 21];
                    bytes[place] = byte;
                    for sought in [b'\n', b'\r', byte] {
                        let expected = bytes.iter().position(|other| *other == sought);
                        assert_eq!(find(&bytes, sought), expected, "{bytes:?}");
                    }
                    let expected = bytes.iter().take_while(|byte| is_text(**byte)).count();
                    assert_eq!(text(&bytes), expected, "{bytes:?}");
                }
            }
        }
    }
}
