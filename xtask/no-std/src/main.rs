//! Proof that the core and every codec work without std: this program has no std to fall back on,
//! brings its own allocator and panic handler, writes a file of each format in memory and reads
//! it again. Its exit code says which format failed, or 0.

#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_int, c_void};
use core::panic::PanicInfo;

use tensor_core::Tensor;

// The C library, for memory and for the way out.
#[link(name = "c")]
unsafe extern "C" {
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
    fn abort() -> !;
}

struct Malloc;

// SAFETY: `aligned_alloc` gives memory of at least the size and alignment asked for, or null, and
// `free` takes back exactly that.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let align = layout.align().max(size_of::<usize>());
        // SAFETY: the alignment is a power of two, and the size a multiple of it.
        unsafe { aligned_alloc(align, layout.size().next_multiple_of(align)).cast() }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        // SAFETY: the pointer came from `alloc`.
        unsafe { free(pointer.cast()) }
    }
}

#[global_allocator]
static MALLOC: Malloc = Malloc;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no preconditions.
    unsafe { abort() }
}

// Named by the unwinding tables of the compiled core, never called under `panic = "abort"`.
// SAFETY: no other crate of this program defines these symbols.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

// SAFETY: this is the program's entry, and nothing else is called so.
#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, _: *const *const c_char) -> c_int {
    let checks: [fn() -> Option<bool>; _] = [mag, ztensor, burnpack, primitiv, aero, safetensors];
    for (at, check) in (1..).zip(checks) {
        if check() != Some(true) {
            return at;
        }
    }
    0
}

fn tensor() -> Option<Tensor> {
    Tensor::from_slice(&[1.0f32, -2.0, 0.5], &[3]).ok()
}

macro_rules! check {
    ($name:ident, $format:ident) => {
        fn $name() -> Option<bool> {
            let mut builder = $format::Builder::new();
            builder.tensor("w", tensor()?).ok()?;
            let file = builder.to_vec().ok()?;
            let archive = $format::Archive::from_bytes(file).ok()?;
            let report = archive.verify(&Default::default()).ok()?;
            let read = archive.read(archive.entry("w")?).ok()?;
            Some(!report.has_failed() && read.data() == tensor()?.data())
        }
    };
}

check!(mag, mag_format);
check!(ztensor, ztensor_format);
check!(burnpack, burnpack_format);
check!(primitiv, primitiv_format);
check!(aero, aero_format);
check!(safetensors, safetensors_format);
