//! Attributes of pods' containers from the bundles of containerd and CRI-O.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::{below, container_attributes};

const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
const CRIO: &str = "/run/containers/storage/overlay-containers";
const LOGS: &str = "/var/log/pods/shop_web-5d_1f6-2";

/// A node below a temporary directory.
struct PodNode(tempfile::TempDir);

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

impl PodNode {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        below(self.0.path(), Path::new(path))
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A bundle of containerd; its sandbox has no name of a container.
    fn containerd(&self, digit: char, (container, uid): (&str, &str)) {
        let text = format!(
            r#"{{"ociVersion":"1.1.0","annotations":{{"io.kubernetes.cri.container-name":"{container}","io.kubernetes.cri.container-type":"container","io.kubernetes.cri.image-name":"registry.example/shop:7","io.kubernetes.cri.sandbox-id":"{}","io.kubernetes.cri.sandbox-name":"web-5d","io.kubernetes.cri.sandbox-namespace":"shop"{uid}}}}}"#,
            id('0')
        );
        self.file(&format!("{CONTAINERD}/{}/config.json", id(digit)), &text);
    }

    fn attributes(&self, path: &str) -> Vec<String> {
        let found = container_attributes(&self.path(path));
        found.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    fn behind_path(&self, path: &str) -> Vec<String> {
        let mut found = self.attributes(path);
        found.retain(|pair| !pair.starts_with("k8s.") || pair.starts_with("k8s.pod.label"));
        found
    }
}

#[test]
fn image_and_id_are_in_the_bundle_of_containerd() {
    let node = PodNode::new();
    node.file(&format!("{LOGS}/app/0.log"), "");
    node.file(&format!("{LOGS}/app/1.log"), "");
    node.containerd('a', ("proxy", ""));
    node.containerd('b', ("app", r#","io.kubernetes.cri.sandbox-uid":"other""#));
    assert!(node.behind_path(&format!("{LOGS}/app/1.log")).is_empty(), "another pod of that name");
    node.containerd('c', ("app", r#","io.kubernetes.cri.sandbox-uid":"1f6-2""#));
    let expected = ["container.image.name=registry.example/shop:7", "container.runtime=containerd"];
    let newest = node.behind_path(&format!("{LOGS}/app/1.log"));
    assert_eq!(newest[0], format!("container.id={}", id('c')));
    assert_eq!(newest[1..], expected);
    // The container that wrote this file has ended.
    assert_eq!(node.behind_path(&format!("{LOGS}/app/0.log")), expected);
    let link = format!("/var/log/containers/web-5d_shop_app-{}.log", id('c'));
    assert_eq!(node.behind_path(&link)[1..], expected);
}

#[test]
fn labels_of_a_pod_are_in_the_bundle_of_the_sandbox_of_cri_o() {
    let node = PodNode::new();
    let names = r#"{\"io.kubernetes.container.name\":\"app\",\"io.kubernetes.pod.name\":\"web-5d\",\"io.kubernetes.pod.namespace\":\"shop\",\"io.kubernetes.pod.uid\":\"1f6-2\"}"#;
    node.file(
        &format!("{CRIO}/{}/userdata/config.json", id('d')),
        &format!(
            r#"{{"annotations":{{"io.kubernetes.cri-o.ImageName":"registry.example/shop:7","io.kubernetes.cri-o.Labels":"{names}","io.kubernetes.cri-o.SandboxID":"{}"}}}}"#,
            id('e')
        ),
    );
    node.file(
        &format!("{CRIO}/{}/userdata/config.json", id('e')),
        r#"{"annotations":{"io.kubernetes.cri-o.Labels":"{\"app\":\"shop\",\"io.kubernetes.pod.uid\":\"1f6-2\",\"team\":\"web\"}"}}"#,
    );
    node.file(&format!("{LOGS}/app/0.log"), "");
    assert_eq!(
        node.behind_path(&format!("{LOGS}/app/0.log")),
        [
            &*format!("container.id={}", id('d')),
            "container.image.name=registry.example/shop:7",
            "container.runtime=cri-o",
            "k8s.pod.label.app=shop",
            "k8s.pod.label.team=web",
        ]
    );
}

/// Bundles that are torn, too large, not JSON, or elsewhere than they seem.
#[test]
fn bundles_outside_of_the_root_or_without_sense_are_ignored() {
    let outside = PodNode::new();
    outside.containerd('a', ("app", ""));
    let node = PodNode::new();
    node.file(&format!("{LOGS}/app/0.log"), "");
    std::fs::create_dir_all(node.path(CONTAINERD)).unwrap();
    let bundle = format!("{CONTAINERD}/{}", id('a'));
    symlink(outside.path(&bundle), node.path(&bundle)).unwrap();
    node.file(&format!("{CONTAINERD}/{}/config.json", id('b')), "{\"annotations\":");
    node.file(
        &format!("{CONTAINERD}/{}/config.json", id('c')),
        "{\"annotations\":[7,{\"a\":null}]}",
    );
    node.file(&format!("{CONTAINERD}/{}/config.json", id('d')), &" ".repeat((1 << 20) + 1));
    node.file(&format!("{CONTAINERD}/short/config.json"), "{}");
    assert_eq!(node.behind_path(&format!("{LOGS}/app/0.log")), [""; 0]);
    // The same bundle within the root is read.
    std::fs::remove_file(node.path(&bundle)).unwrap();
    node.containerd('a', ("app", ""));
    assert_eq!(node.behind_path(&format!("{LOGS}/app/0.log")).len(), 3);
}

#[test]
fn containers_of_nerdctl_have_their_name() {
    let node = PodNode::new();
    let bundle =
        format!("/run/containerd/io.containerd.runtime.v2.task/default/{}/config.json", id('f'));
    node.file(&bundle, r#"{"annotations":{"nerdctl/name":"web","nerdctl/namespace":"default"}}"#);
    let log = format!("/var/lib/nerdctl/1935db59/containers/default/{0}/{0}-json.log", id('f'));
    assert!(node.attributes(&log).contains(&"container.name=web".to_owned()));
}
