//! Are files read again once they change, without a reload: a pair that does not fit, an authority, keys of tickets?

use crate::rig::issued::{Issued, authority, certificate};
use crate::rig::{self, Gateway, eventually, hello};
use crate::tls::TEXT;

/// Whether it serves a client who shows a certificate of this authority.
fn admits(gateway: &Gateway, ca: &Issued) -> bool {
    let Issued { cert, key } = certificate(&["alice"]).by(ca).issue();
    let hello = hello("a.test").with(move |context| {
        context.set_certificate(&cert).unwrap();
        context.set_private_key(&key).unwrap();
    });
    hello.connect(gateway.listeners[1]).is_ok_and(|mut client| client.try_send(&rig::Ask::get("/")).is_ok())
}

#[test]
fn what_changed_is_read_again_and_what_does_not_fit_is_left() {
    let a = rig::origin("a");
    let (ca, other) = (authority("the CA"), authority("another CA"));
    let start = rig::gateway(TEXT).listener("tls: { ticket_keys: $dir/keys }").origins([&a]);
    let gateway = start.further_listener("tls: { client_ca: $dir/ca.pem }").start_with(|folder| {
        certificate(&["a.test"]).issue().write(folder, "a");
        ca.write(folder, "ca");
        std::fs::write(folder.join("keys"), [b'1'; 80]).unwrap();
    });
    let shows = || hello("a.test").connect(gateway.address()).unwrap().shown();
    let first = shows();
    // a key that is another's
    let second = certificate(&["a.test"]).issue();
    std::fs::write(gateway.path("a.key"), second.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    eventually("it says so", || gateway.output().contains("is not the key").then_some(()));
    assert_eq!(shows(), first, "the old one goes on");
    // and its certificate after it
    second.write(&gateway.path(""), "a");
    eventually("the new one is shown", || (shows() == second.fingerprint()).then_some(()));

    assert!(admits(&gateway, &ca) && !admits(&gateway, &other));
    other.write(&gateway.path(""), "ca");
    eventually("the other authority counts", || admits(&gateway, &other).then_some(()));
    assert!(!admits(&gateway, &ca));

    let goes_on = || {
        let mut client = hello("a.test").connect(gateway.address()).unwrap();
        assert_eq!(client.get("/first").status, 200);
        let session = client.stream().ssl().session().unwrap().to_owned();
        client.leave();
        move |gateway: &Gateway| {
            let mut client = hello("a.test").resuming(&session).connect(gateway.address()).unwrap();
            assert_eq!(client.get("/again").status, 200);
            let reused = client.stream().ssl().session_reused();
            client.leave();
            reused
        }
    };
    let resumed = goes_on();
    assert!(resumed(&gateway));
    std::fs::write(gateway.path("keys"), [b'2'; 80]).unwrap();
    eventually("the old key opens nothing", || (!resumed(&gateway)).then_some(()));
    assert!(goes_on()(&gateway), "the new one does");
}
