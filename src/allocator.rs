//! Where does memory come from? From mimalloc, whose plain functions are asked wherever they do.
//!
//! The crate of its name asks for an alignment each time, which costs half as much again, and several times as much for
//! blocks of more than 1 KiB: mimalloc makes those larger in order to align them, which they are anyway.
//!
//! Its areas would be backed by huge pages, 2 MiB at a time: each thread has areas of its own for each size of block, most of
//! them with little in them. Pages of 4 KiB take half the memory, at no cost that could be measured.

#![expect(unsafe_code, reason = "an allocator hands out memory; nothing of it is kept or looked into here")]

use std::alloc::{GlobalAlloc, Layout};
use std::env;

use libmimalloc_sys as mi;
use nix::sys::prctl::set_thp_disable;

/// What every block is aligned to that is not smaller than that (`MI_MAX_ALIGN_SIZE`).
const ALIGNED: usize = 16;

/// mimalloc.
pub(super) struct Mimalloc;

/// The variable of mimalloc's own by which huge pages are asked for.
const HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

// SAFETY: the loader calls each pointer of this section once as a function of C, on the only thread there is. What it may
// be called with is passed in registers that a function without parameters leaves alone.
/// Called before `main`, since the first block of memory, which is asked for on the way there, would be in a huge page already.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = use_small_pages;

/// No huge pages, unless they are asked for; a process that replaces this one inherits that and decides anew.
extern "C" fn use_small_pages() {
    // disabled first: to look for the variable takes memory. A kernel that knows no such thing leaves everything as it was.
    if set_thp_disable(true).is_ok() && env::var_os(HUGE_PAGES).is_some_and(|value| value == "1") {
        let _ = set_thp_disable(false);
    }
}

/// Is a block of this size aligned as wanted wherever it lies?
const fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= ALIGNED && align <= size
}

// SAFETY: each function is mimalloc's own of that meaning: what it answers is a block of at least this size and this
// alignment or null, which stays valid until it is freed or moved by one of them, and none of them unwinds.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller's layout has a size, and its alignment is a power of two.
        let block = unsafe {
            if is_aligned_anyway(size, align) { mi::mi_malloc(size) } else { mi::mi_malloc_aligned(size, align) }
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        let block = unsafe {
            if is_aligned_anyway(size, align) { mi::mi_zalloc(size) } else { mi::mi_zalloc_aligned(size, align) }
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller has it from one of the others, and gives it up.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: the caller has the block from one of the others, and takes what is answered for it.
        let block = unsafe {
            if is_aligned_anyway(size, align) {
                mi::mi_realloc(block.cast(), size)
            } else {
                mi::mi_realloc_aligned(block.cast(), size, align)
            }
        };
        block.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_small_pages() {
        // where the kernel cannot be asked it has none
        if let Ok(declined) = nix::sys::prctl::get_thp_disable() {
            assert_eq!(declined, env::var_os(HUGE_PAGES).is_none_or(|value| value != "1"));
        }
    }

    #[test]
    fn blocks_are_aligned_and_keep_what_is_in_them() {
        let sizes = (1..300).chain([511, 512, 513, 1023, 1024, 1025, 1032, 2056, 8720, 65_537, 1 << 20]);
        for (size, align) in sizes.flat_map(|size| (0..9).map(move |power| (size, 1 << power))) {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: what is written and read lies within the block, which is freed once, by the layout it has then.
            unsafe {
                let block = Mimalloc.alloc_zeroed(layout);
                assert_eq!((block.align_offset(align), *block.add(size - 1)), (0, 0), "{layout:?}");
                block.write_bytes(0x5a, size);
                let larger = Mimalloc.realloc(block, layout, size * 3);
                assert_eq!((larger.align_offset(align), *larger.add(size - 1)), (0, 0x5a), "{layout:?}");
                Mimalloc.dealloc(larger, Layout::from_size_align(size * 3, align).unwrap());
                let block = Mimalloc.alloc(layout);
                assert_eq!(block.align_offset(align), 0, "{layout:?}");
                Mimalloc.dealloc(block, layout);
            }
        }
    }
}
