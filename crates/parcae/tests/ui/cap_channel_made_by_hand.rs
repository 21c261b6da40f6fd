//! Nobody makes a capability of this kind.

use parcae::cap::{CapChannel, ChannelLimits};

fn main() {
    let limits = ChannelLimits { max_channels: 1, max_buffer: 1 };
    let _ = CapChannel::new(limits);
    let _ = CapChannel::from(limits);
    let _ = CapChannel::default();
    let _: CapChannel = limits.into();
}
