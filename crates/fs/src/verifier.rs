//! Write verifiers (RFC 1813 section 3.3.7, `writeverf3`).

/// Between a verifier and the next. Odd, so that it walks through all 2^64 values.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first verifier of a run. Without random bytes (early at boot) clock and process number
/// distinguish runs.
#[must_use]
pub fn fresh() -> u64 {
    let mut random = [0; 8];
    let drawn = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK);
    let random = if drawn == Ok(random.len()) {
        u64::from_ne_bytes(random)
    } else {
        0
    };
    let now = crate::Timestamp::now();
    #[allow(clippy::cast_sign_loss)] // any bits do
    let clock = (now.seconds as u64) << 30 | u64::from(now.nanoseconds);
    random ^ clock ^ u64::from(std::process::id()).rotate_left(48)
}

/// The verifier after `losses` possible ones, of a run that began with `first`.
#[must_use]
pub fn after(first: u64, losses: u64) -> [u8; 8] {
    first.wrapping_add(losses.wrapping_mul(STEP)).to_be_bytes()
}
