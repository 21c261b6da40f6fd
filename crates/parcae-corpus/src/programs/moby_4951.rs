//! `moby#4951`: a lock that is given back in the middle and taken again.
//!
//! Deleting a device takes the lock of all devices and then that of the device. While the kernel
//! removes it, the first lock is given back, because that takes long; then it is taken again,
//! under the device's lock. So the order of the two depends on how far a deletion has come.
//!
//! Order that shows it: a second deletion of the device starts while the kernel is at work.
//! Kind: lock order. Tasks: 2.

use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Device {
    removed: Mutex<bool>,
}

struct Devices {
    /// The number of devices, under the lock of all.
    all: Mutex<u32>,
    device: Device,
}

impl Devices {
    fn delete_and_lock_again(&self) -> Result<()> {
        let all = self.all.lock()?;
        let mut removed = self.device.removed.lock()?;
        if *removed {
            return Ok(());
        }
        drop(all);
        *removed = true; // the kernel's part
        *self.all.lock()? -= 1;
        Ok(())
    }

    fn delete_in_one_order(&self) -> Result<()> {
        let first = {
            let mut removed = self.device.removed.lock()?;
            !std::mem::replace(&mut *removed, true)
        };
        if first {
            *self.all.lock()? -= 1;
        }
        Ok(())
    }
}

fn run(rt: &Runtime, delete: fn(&Devices) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let devices = Devices { all: Mutex::new(1), device: Device { removed: Mutex::new(false) } };
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| delete(&devices))?;
            }
            Ok(())
        })?;
        assert_eq!(*devices.all.lock()?, 0);
        Ok(())
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Devices::delete_and_lock_again)
}

/// The two locks are not held together.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Devices::delete_in_one_order)
}
