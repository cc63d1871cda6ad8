//! The devices that share a cache: their numbers, and where they are notified of what became of
//! pages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use crate::page::{PAGE_BITS, device_of, page_of};
use crate::residency::listed::LISTED;
use crate::sync::Mutex;

const NUMBERS_MASK: u32 = (1 << (64 - PAGE_BITS)) - 1;

/// Learns what became of pages of a device.
pub(crate) trait Observer: Send + Sync {
    /// Read-ahead fetched the page, and it went before anything was read of it.
    fn wasted(&self, page: u64);
}

/// See the module.
pub(crate) struct Devices {
    observers: Mutex<HashMap<u32, Weak<dyn Observer>>>,
    next: AtomicU32,
}

impl Devices {
    pub(crate) fn new() -> Self {
        Self {
            observers: Mutex::default(),
            next: AtomicU32::new(1),
        }
    }

    /// A number for one more device, whose pages are listed or not.
    pub(crate) fn add(&self, observer: &Arc<impl Observer + 'static>, listed: bool) -> u32 {
        let flag = if listed { LISTED } else { 0 };
        let mut observers = self.observers.lock();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let number = number & NUMBERS_MASK & !LISTED | flag;
            if number & !LISTED != 0 && !observers.contains_key(&number) {
                let observer: Weak<dyn Observer> = Arc::downgrade(observer) as _;
                observers.insert(number, observer);
                return number;
            }
        }
    }

    /// Forgets a device.
    pub(crate) fn remove(&self, number: u32) {
        self.observers.lock().remove(&number);
    }

    /// Tells the device of a page.
    pub(crate) fn wasted(&self, key: u64) {
        let observer = self.observers.lock().get(&device_of(key)).cloned();
        if let Some(observer) = observer.and_then(|observer| observer.upgrade()) {
            observer.wasted(page_of(key));
        }
    }
}
