//! What does Pingora's own proxy service cost with the gateway's allocator?

mod stock;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stock::main()
}
