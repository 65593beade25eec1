//! Carries streams of rows from agents to a hub, exactly once, over mutual TLS.
