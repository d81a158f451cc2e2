//! WebSocket frames (RFC 6455 5.2), as clients write them.

const MASK: [u8; 4] = [0xa1, 0, 0x5f, 0x7c];

/// A masked frame with this first byte and the shortest encoding of its length.
pub fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match content.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        long @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(long as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(content.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}
