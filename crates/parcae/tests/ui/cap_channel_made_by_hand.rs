//! A capability of this kind cannot be constructed.

use parcae::cap::{CapChannel, ChannelLimits};

fn main() {
    let limits = ChannelLimits { max_channels: 1, max_buffer: 1 };
    let _ = CapChannel::new(limits);
    //~ error[E0599]: no function or associated item named `new` found for struct `CapChannel` in
    //~    the current scope
    //~ label: function or associated item not found in `CapChannel`
    let _ = CapChannel::from(limits);
    //~ error[E0308]: mismatched types
    //~ label: expected `CapChannel`, found `ChannelLimits`
    let _ = CapChannel::default();
    //~ error[E0599]: no function or associated item named `default` found for struct `CapChannel`
    //~    in the current scope
    //~ label: function or associated item not found in `CapChannel`
    let _: CapChannel = limits.into();
    //~ error[E0277]: the trait bound `CapChannel: From<ChannelLimits>` is not satisfied
    //~ label: the trait `From<ChannelLimits>` is not implemented for `CapChannel`
}
