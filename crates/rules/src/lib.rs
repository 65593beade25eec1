//! Turns SQL answers into findings; pure.
