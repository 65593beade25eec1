//! Copies chosen rows to other systems: Elasticsearch, Kafka, HTTP.
