//! How does the library get the keys of tickets? By a callback that its Rust API does not have.

#![expect(unsafe_code, reason = "OpenSSL asks for keys of tickets by a C callback, and nowhere else")]

use std::os::raw::{c_int, c_uchar};
use std::{mem, ptr, slice};

use openssl::ssl::SslContextBuilder;
use openssl_sys as ffi;

use super::tickets::{Key, Keys};

/// SSL_CTRL_SET_TLSEXT_TICKET_KEY_CB.
const SET_CALLBACK: c_int = 72;

/// The slot of a context that the library leaves to whoever uses it.
const APP_DATA: c_int = 0;

const NAME: usize = 16;

/// What the callback answers: not with this key; done; done, and the ticket is to be sealed anew.
const NONE: c_int = 0;
const DONE: c_int = 1;
const ANEW: c_int = 2;
const FAILED: c_int = -1;

type Callback = unsafe extern "C" fn(
    *mut ffi::SSL,
    *mut c_uchar,
    *mut c_uchar,
    *mut ffi::EVP_CIPHER_CTX,
    *mut ffi::HMAC_CTX,
    c_int,
) -> c_int;

/// Has tickets of `context` sealed with `keys`.
pub(super) fn seal_with(context: &mut SslContextBuilder, keys: &'static Keys) {
    let data = ptr::from_ref(keys).cast_mut().cast();
    // SAFETY: the context is whole; the library keeps the pointer and never follows it, and what it points to lives for
    // ever and is only read. The callback has the type that the library documents for this command.
    unsafe {
        ffi::SSL_CTX_set_ex_data(context.as_ptr(), APP_DATA, data);
        let callback = mem::transmute::<Callback, unsafe extern "C" fn()>(key_of_ticket);
        ffi::SSL_CTX_callback_ctrl__fixed_rust(context.as_ptr(), SET_CALLBACK, Some(callback));
    }
}

/// Seals a ticket, or opens one: in the first case names the key and the start of the chain of blocks, in the second reads
/// them.
///
/// # Safety
/// Called by the library alone, with pointers that are good for as long as it lasts: to 16 bytes each, and to contexts.
unsafe extern "C" fn key_of_ticket(
    ssl: *mut ffi::SSL,
    name: *mut c_uchar,
    start: *mut c_uchar,
    cipher: *mut ffi::EVP_CIPHER_CTX,
    mac: *mut ffi::HMAC_CTX,
    seals: c_int,
) -> c_int {
    // SAFETY: as this function asks; the data of a context with this callback is that of `seal_with`.
    unsafe {
        let keys: *const Keys = ffi::SSL_CTX_get_ex_data(ffi::SSL_get_SSL_CTX(ssl), APP_DATA).cast();
        let Some(keys) = keys.as_ref() else { return FAILED };
        let name = slice::from_raw_parts_mut(name, NAME);
        if seals == 1 {
            let Some(key) = keys.first() else { return FAILED };
            name.copy_from_slice(&key.name);
            let done = ffi::RAND_bytes(start, NAME as c_int) == 1
                && ffi::EVP_EncryptInit_ex(cipher, block(key), ptr::null_mut(), key.cipher.as_ptr(), start) == 1
                && signs(mac, key);
            return if done { DONE } else { FAILED };
        }
        let Some((key, is_first)) = keys.named(name) else { return NONE };
        let done = signs(mac, key)
            && ffi::EVP_DecryptInit_ex(cipher, block(key), ptr::null_mut(), key.cipher.as_ptr(), start) == 1;
        // in TLS 1.3 a client uses each ticket once (RFC 8446, section C.4), and has none left unless it gets another
        let is_kept = is_first && ffi::SSL_version(ssl) < ffi::TLS1_3_VERSION;
        match (done, is_kept) {
            (false, _) => FAILED,
            (true, true) => DONE,
            (true, false) => ANEW,
        }
    }
}

fn block(key: &Key) -> *const ffi::EVP_CIPHER {
    // SAFETY: both only answer what is there for ever.
    unsafe { if key.cipher.len() == 16 { ffi::EVP_aes_128_cbc() } else { ffi::EVP_aes_256_cbc() } }
}

/// # Safety
/// `mac` is a context.
unsafe fn signs(mac: *mut ffi::HMAC_CTX, key: &Key) -> bool {
    let length = c_int::try_from(key.mac.len()).unwrap_or(0);
    // SAFETY: as this function asks; the key is as long as is said.
    unsafe { ffi::HMAC_Init_ex(mac, key.mac.as_ptr().cast(), length, ffi::EVP_sha256(), ptr::null_mut()) == 1 }
}
