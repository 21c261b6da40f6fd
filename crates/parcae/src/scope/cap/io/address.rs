//! Sets of addresses, as operators write them: `10.0.0.0/8:5432, [::1]:8000-8099, 127.0.0.1:*`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// Addresses and ports: a network, and a range of ports.
///
/// ```
/// use parcae::cap::AddressRule;
///
/// let rule: AddressRule = "10.0.0.0/8:8000-8099".parse()?;
/// assert!(rule.contains("10.1.2.3:8042".parse()?));
/// assert!(!rule.contains("10.1.2.3:80".parse()?));
/// // The same host, by its other name.
/// assert!(rule.contains("[::ffff:10.1.2.3]:8042".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRule {
    ip: IpAddr,
    /// Bits of `ip` that count.
    prefix: u8,
    first: u16,
    last: u16,
}

/// The first `prefix` bits of an address, at the top.
fn head(ip: IpAddr, prefix: u8) -> u128 {
    let bits = match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    };
    match prefix {
        0 => 0,
        prefix => bits >> (128 - u32::from(prefix)),
    }
}

impl AddressRule {
    /// Whether this address and port are allowed. An IPv4 address in IPv6 form is the IPv4 address.
    pub fn contains(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.covers(ip, self.prefix) && (self.first..=self.last).contains(&address.port())
    }

    /// Whether the network of this rule has that of `ip`, whose first `prefix` bits count.
    fn covers(&self, ip: IpAddr, prefix: u8) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4()
            && prefix >= self.prefix
            && head(self.ip, self.prefix) == head(ip, self.prefix)
    }

    fn is_within(&self, wider: &AddressRule) -> bool {
        wider.covers(self.ip, self.prefix) && self.first >= wider.first && self.last <= wider.last
    }
}

/// A text that is no rule for addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAddressRule(String);

impl fmt::Display for BadAddressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no addresses: write `127.0.0.1:80`, `10.0.0.0/8:8000-8099`, `[::1]:*`",
            self.0
        )
    }
}

impl std::error::Error for BadAddressRule {}

impl FromStr for AddressRule {
    type Err = BadAddressRule;

    fn from_str(text: &str) -> Result<AddressRule, BadAddressRule> {
        parse(text.trim()).ok_or_else(|| BadAddressRule(text.trim().into()))
    }
}

fn parse(text: &str) -> Option<AddressRule> {
    let (network, ports) = text.rsplit_once(':')?;
    let (ip, prefix) = match network.split_once('/') {
        Some((ip, prefix)) => (ip, Some(prefix.parse::<u8>().ok()?)),
        None => (network, None),
    };
    let ip: IpAddr = match ip.strip_prefix('[') {
        Some(ip) => IpAddr::V6(ip.strip_suffix(']')?.parse().ok()?),
        None => IpAddr::V4(ip.parse().ok()?),
    };
    // The whole rule is about IPv4 hosts, if its address is one of them.
    let canonical = ip.to_canonical();
    let (ip, prefix) = match (ip, canonical, prefix) {
        (IpAddr::V6(_), IpAddr::V4(_), Some(prefix)) => (canonical, Some(prefix.checked_sub(96)?)),
        (_, _, prefix) => (canonical, prefix),
    };
    let bits = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(bits);
    let (first, last) = match ports.split_once('-') {
        _ if ports == "*" => (0, u16::MAX),
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (ports.parse().ok()?, ports.parse().ok()?),
    };
    (prefix <= bits && first <= last).then_some(AddressRule { ip, prefix, first, last })
}

/// The addresses that a [`CapNet`](super::CapNet) allows.
///
/// ```
/// use parcae::cap::AddressSet;
///
/// let set: AddressSet = "127.0.0.1:*, [::1]:*".parse()?;
/// assert!(set.contains("127.0.0.1:9".parse()?));
/// assert!(!set.contains("127.0.0.2:9".parse()?));
/// assert!(!AddressSet::NONE.contains("127.0.0.1:9".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSet(Rules);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rules {
    Any,
    None,
    Some(Arc<[AddressRule]>),
}

impl AddressSet {
    /// All addresses.
    pub const ANY: AddressSet = AddressSet(Rules::Any);
    /// No address.
    pub const NONE: AddressSet = AddressSet(Rules::None);

    /// The addresses of any of these rules.
    pub fn of(rules: impl IntoIterator<Item = AddressRule>) -> AddressSet {
        AddressSet(Rules::Some(rules.into_iter().collect()))
    }

    /// Whether this address and port are allowed.
    pub fn contains(&self, address: SocketAddr) -> bool {
        match &self.0 {
            Rules::Any => true,
            Rules::None => false,
            Rules::Some(rules) => rules.iter().any(|rule| rule.contains(address)),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.0 == Rules::Any
    }

    pub(super) fn is_none(&self) -> bool {
        self.len() == 0
    }

    /// Number of rules, for the audit log; `u32::MAX` without limits.
    pub(super) fn len(&self) -> u32 {
        match &self.0 {
            Rules::Any => u32::MAX,
            Rules::None => 0,
            Rules::Some(rules) => rules.len() as u32,
        }
    }

    /// Whether each rule lies within one rule of the wider set. A rule that only several of them
    /// together cover is refused.
    pub(super) fn is_within(&self, wider: &AddressSet) -> bool {
        match (&self.0, &wider.0) {
            (_, Rules::Any) | (Rules::None, _) => true,
            (Rules::Any, _) => false,
            (Rules::Some(rules), Rules::None) => rules.is_empty(),
            (Rules::Some(rules), Rules::Some(wider)) => {
                rules.iter().all(|rule| wider.iter().any(|wider| rule.is_within(wider)))
            }
        }
    }
}

/// Rules with commas between them.
impl FromStr for AddressSet {
    type Err = BadAddressRule;

    fn from_str(text: &str) -> Result<AddressSet, BadAddressRule> {
        let rules: Result<Arc<[AddressRule]>, _> = text.split(',').map(str::parse).collect();
        Ok(AddressSet(Rules::Some(rules?)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn set(text: &str) -> AddressSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_rule_has_its_network_and_ports() {
        for (rule, inside, outside) in [
            ("127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:81"),
            ("10.0.0.0/8:*", "10.255.0.1:0", "11.0.0.0:1"),
            ("0.0.0.0/0:1-1023", "8.8.8.8:53", "8.8.8.8:1024"),
            ("[::1]:7", "[::1]:7", "127.0.0.1:7"),
            ("[fd00::]/8:*", "[fd12::1]:9", "[fe80::1]:9"),
            ("[::]/0:*", "[::1]:9", "127.0.0.1:9"),
            // The IPv4 host that hides behind an IPv6 address.
            ("10.0.0.0/8:*", "[::ffff:10.0.0.1]:1", "[::ffff:11.0.0.1]:1"),
            ("[::ffff:10.0.0.0]/104:*", "10.9.9.9:1", "11.0.0.1:1"),
            ("10.1.0.0/15:*", "10.1.255.255:1", "10.2.0.0:1"),
        ] {
            let rule: AddressRule = rule.parse().unwrap();
            assert!(rule.contains(inside.parse().unwrap()), "{rule:?} {inside}");
            assert!(!rule.contains(outside.parse().unwrap()), "{rule:?} {outside}");
        }
        // All addresses of IPv6 do not include those of IPv4 in IPv6 form.
        assert!(!set("[::]/0:*").contains("[::ffff:1.2.3.4]:1".parse().unwrap()));
    }

    #[test]
    fn texts_that_name_no_addresses_are_refused() {
        for text in [
            "",
            ":",
            "1.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4/33:*",
            "::1:80",
            "[::1]/129:*",
            "1.2.3.4:9-8",
            "host:80",
            "[1.2.3.4]:80",
            "1.2.3.4:70000",
            "[::ffff:1.2.3.4]/95:*",
        ] {
            let error = text.parse::<AddressSet>().unwrap_err();
            assert!(error.to_string().contains("10.0.0.0/8:8000-8099"), "{error}");
        }
    }

    #[test]
    fn a_set_within_another() {
        for (narrow, wide, within) in [
            ("10.1.0.0/16:80", "10.0.0.0/8:*", true),
            ("10.0.0.0/8:*", "10.1.0.0/16:*", false),
            ("10.0.0.1:80-90", "10.0.0.1:80-89", false),
            ("[::1]:1, 10.0.0.1:1", "10.0.0.0/8:*, [::]/0:1-9", true),
            ("127.0.0.1:1", "[::]/0:*", false),
        ] {
            assert_eq!(set(narrow).is_within(&set(wide)), within, "{narrow} in {wide}");
        }
        let some = set("1.2.3.4:5");
        assert!(some.is_within(&AddressSet::ANY) && !AddressSet::ANY.is_within(&some));
        assert!(AddressSet::NONE.is_within(&some) && !some.is_within(&AddressSet::NONE));
        assert!(AddressSet::of([]).is_within(&AddressSet::NONE));
    }
}
