//! Signals as channels.

use crate::support::{runtime, seeded};
use parcae_io::signal;

fn raise(signal: i32) {
    let kill = std::process::Command::new("kill")
        .args([format!("-{signal}"), std::process::id().to_string()])
        .status();
    assert!(kill.unwrap().success());
}

#[test]
fn every_subscriber_hears_of_it() {
    let rt = runtime(2);
    rt.run(|cx| {
        let (one, two) = (signal::channel(signal::SIGUSR1)?, signal::channel(signal::SIGUSR1)?);
        let other = signal::channel(signal::SIGUSR2)?;
        cx.nursery(|n| {
            n.spawn(|_| Ok(one.recv().map(drop)?))?;
            raise(signal::SIGUSR1);
            assert_eq!(two.recv()?, signal::SIGUSR1);
            Ok(())
        })?;
        assert!(other.try_recv().is_err(), "another signal");
        drop(two);
        // A storm: none is lost by kind.
        for _ in 0..20 {
            raise(signal::SIGUSR1);
        }
        raise(signal::SIGUSR2);
        one.recv()?;
        assert_eq!(other.recv()?, signal::SIGUSR2);
        Ok(())
    })
    .unwrap();
}

#[test]
fn faults_are_no_channels() {
    for signal in [0, 64, -1, 11] {
        assert!(signal::channel(signal).is_err(), "{signal}");
    }
    assert!(signal::channel(9).is_err(), "cannot be caught");
}

#[test]
fn simulated_signals_come_from_the_test() {
    seeded(3)
        .run(|cx| {
            let stop = signal::ctrl_c()?;
            cx.nursery(|n| {
                n.spawn(|cx| {
                    cx.sleep(std::time::Duration::from_secs(3600))?; // virtual
                    Ok(parcae_io::sim::raise(signal::SIGINT)?)
                })?;
                assert_eq!(stop.recv()?, signal::SIGINT);
                Ok(())
            })
        })
        .unwrap();
    assert!(parcae_io::sim::raise(signal::SIGINT).is_err(), "no simulation here");
}
