//! What do hooks answer that never wait?
//!
//! Pingora takes a future of every hook, on the heap. These do what they do when they are called, as Pingora awaits them at
//! once anyway, and answer with a future that has nothing in it: nothing is taken from the heap for it.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::task::Poll;

use pingora_core::Result;

/// What Pingora takes of a hook.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// All is well.
pub(super) fn done<'a>(result: Result<()>) -> Answer<'a, Result<()>> {
    match result {
        Ok(()) => Box::pin(poll_fn(|_| Poll::Ready(Ok(())))),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

/// The request goes on to where it is served.
pub(super) fn goes_on<'a>() -> Answer<'a, Result<bool>> {
    Box::pin(poll_fn(|_| Poll::Ready(Ok(false))))
}

/// Nothing forbids it.
pub(super) fn yes<'a>() -> Answer<'a, Result<bool>> {
    Box::pin(poll_fn(|_| Poll::Ready(Ok(true))))
}

/// There is nothing to say.
pub(super) fn nothing<'a>() -> Answer<'a, ()> {
    Box::pin(poll_fn(|_| Poll::Ready(())))
}

/// A hook as `async_trait` declares it in the trait, but for its body, which runs when it is called.
macro_rules! at_once {
    ($(
        $(#[$doc:meta])*
        fn $name:ident<$($life:lifetime),*>($hook:ident $(, $argument:ident: $type:ty)* $(,)?) -> $output:ty $body:block
    )*) => { $(
        $(#[$doc])*
        fn $name<'hook, $($life,)* 'async_trait>(
            &'hook $hook, $($argument: $type),*
        ) -> $crate::proxy::at_once::Answer<'async_trait, $output>
        where
            'hook: 'async_trait,
            $($life: 'async_trait,)*
            Self: 'async_trait,
        $body
    )* };
}
pub(super) use at_once;

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::proxy::again::raise;
    use crate::resilience::Class;

    fn now<T>(mut answer: Answer<'_, T>) -> (usize, T) {
        let bytes = size_of_val(&*answer);
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => (bytes, output),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn what_is_well_takes_nothing_from_the_heap_and_what_is_not_is_told() {
        let (bytes, result) = now(done(Ok(())));
        assert!(bytes == 0 && result.is_ok());
        assert!(now(done(Err(raise(Class::NoRoute)))).1.is_err());
        let ((on, goes_on), (said, yes)) = (now(goes_on()), now(yes()));
        assert!(!goes_on.unwrap() && yes.unwrap());
        assert_eq!((on, said, now(nothing())), (0, 0, (0, ())));
    }
}
