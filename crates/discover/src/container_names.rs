//! Which container writes a log: names of namespace, pod, container, image, and labels, as
//! attributes of its rows.
//!
//! Source: the paths of Kubernetes' kubelet (`NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`, and
//! `POD_NAMESPACE_CONTAINER-ID.log` for links), Docker's `config.v2.json`, Podman's
//! `containers.json`, and the OCI bundles of pods' containers. Attributes have OpenTelemetry's names, as other shippers send them. The
//! surprising thing: no name of a namespace, pod or container has an underscore, so paths can be
//! split at it.

use std::path::Path;

use serde_json::Value;

use crate::container_bundle::{ContainerBundle, PodContainer};
use crate::docker::{self, DockerContainer};

/// Maximum labels of one container, and bytes of a name or a value.
const LABELS_MAX: usize = 64;
const LABEL_BYTES_MAX: usize = 1024;
/// Maximum bytes of Podman's list of containers.
const LIST_LIMIT: u64 = 16 << 20;
/// Digits of a container's id.
const ID_DIGITS: usize = 64;

/// Labels that Kubernetes' runtimes give to containers, and the attributes that they are.
const POD_LABELS: [(&str, &str); 4] = [
    ("io.kubernetes.pod.namespace", "k8s.namespace.name"),
    ("io.kubernetes.pod.name", "k8s.pod.name"),
    ("io.kubernetes.pod.uid", "k8s.pod.uid"),
    ("io.kubernetes.container.name", "k8s.container.name"),
];

/// Attributes of the container that writes the log at `path`: names and values; empty when no
/// container is known to write it. Reads the runtime's description of the container, if any.
pub fn container_attributes(path: &Path) -> Vec<(String, String)> {
    let names: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let found = match names.as_slice() {
        [.., "pods", pod, container, file] => pod_attributes([pod, container, file])
            .map(|found| with_bundle(path, [pod, container], found)),
        [.., "containers", file] if file.ends_with(".log") => link_attributes(path, file),
        [.., "containers", id, file] if is_id(id) && file.starts_with(id) => {
            docker_attributes(path)
        }
        [.., "overlay-containers", id, "userdata", _] if is_id(id) => podman_attributes(path, id),
        [.., "containers", namespace, id, file] if is_id(id) && file.starts_with(id) => {
            Some(nerdctl_attributes(path, [namespace, id]))
        }
        _ => None,
    };
    found.unwrap_or_default()
}

fn attribute(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Whether a text is the id of a container.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// `NAMESPACE_POD_UID`, `CONTAINER` and `RESTARTS.log`, also of a rotated file.
fn pod_attributes([pod, container, file]: [&str; 3]) -> Option<Vec<(String, String)>> {
    let mut parts = pod.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || [namespace, name, uid, container].contains(&"") {
        return None;
    }
    let mut found = vec![
        attribute("k8s.namespace.name", namespace),
        attribute("k8s.pod.name", name),
        attribute("k8s.pod.uid", uid),
        attribute("k8s.container.name", container),
    ];
    let restarts = file.split('.').next().unwrap_or_default();
    if !restarts.is_empty() && restarts.bytes().all(|byte| byte.is_ascii_digit()) {
        found.push(attribute("k8s.container.restart_count", restarts));
    }
    Some(found)
}

/// The root of a log's path; `/` if the log is in a directory that the kubelet's configuration names.
fn root_of<'a>(path: &'a Path, directory: &str) -> &'a Path {
    let before = path.ancestors().find(|path| path.ends_with(directory));
    let depth = Path::new(directory).iter().count();
    before.and_then(|path| path.ancestors().nth(depth)).unwrap_or(Path::new("/"))
}

/// Adds what the bundle of a pod's container says. The id is that of the running container, so it
/// belongs to the newest of the container's logs alone.
fn with_bundle(
    path: &Path,
    [pod, container]: [&str; 2],
    mut found: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let mut parts = pod.split('_');
    let (Some(namespace), Some(pod), Some(uid)) = (parts.next(), parts.next(), parts.next()) else {
        return found;
    };
    let root = root_of(path, "var/log/pods");
    let wanted = PodContainer { namespace, pod, uid, container };
    if let Some(bundle) = ContainerBundle::of_pod(root, wanted) {
        if is_newest(path) {
            found.push(attribute("container.id", &bundle.id));
        }
        add_bundle(root, &bundle, &mut found);
    }
    found
}

fn add_bundle(root: &Path, bundle: &ContainerBundle, found: &mut Vec<(String, String)>) {
    if let Some(image) = bundle.image() {
        found.push(attribute("container.image.name", image));
    }
    found.push(attribute("container.runtime", bundle.runtime()));
    let fits = bundle
        .pod_labels(root)
        .into_iter()
        .filter(|(name, value)| name.len() <= LABEL_BYTES_MAX && value.len() <= LABEL_BYTES_MAX);
    found.extend(
        fits.take(LABELS_MAX).map(|(name, value)| (format!("k8s.pod.label.{name}"), value)),
    );
}

/// Whether no log in the directory belongs to a later start of the container.
fn is_newest(path: &Path) -> bool {
    let Some(own) = restarts(path) else { return false };
    let entries = path.parent().and_then(|directory| directory.read_dir().ok());
    let others = entries.into_iter().flatten().flatten();
    others.filter_map(|entry| restarts(&entry.path())).all(|other| other <= own)
}

/// Starts of a container before the one that writes a log: `3.log`, `3.log.20261120-120000.gz`.
fn restarts(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.split('.').next()?.parse().ok()
}

fn nerdctl_attributes(path: &Path, [namespace, id]: [&str; 2]) -> Vec<(String, String)> {
    let root = root_of(path, "var/lib/nerdctl");
    let mut found = vec![attribute("container.id", id)];
    if let Some(bundle) = ContainerBundle::of_id(root, (namespace, id))
        && let Some(name) = bundle.name()
    {
        found.push(attribute("container.name", name));
    }
    found.push(attribute("container.runtime", "containerd"));
    found.push(attribute("containerd.namespace", namespace));
    found
}

/// `POD_NAMESPACE_CONTAINER-ID.log`.
fn link_attributes(path: &Path, file: &str) -> Option<Vec<(String, String)>> {
    let (rest, id) = file.strip_suffix(".log")?.rsplit_once('-').filter(|(_, id)| is_id(id))?;
    let mut parts = rest.split('_');
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let mut found = vec![
        attribute("k8s.namespace.name", namespace),
        attribute("k8s.pod.name", pod),
        attribute("k8s.container.name", container),
        attribute("container.id", id),
    ];
    let root = root_of(path, "var/log/containers");
    if let Some(bundle) = ContainerBundle::of_id(root, ("k8s.io", id)) {
        add_bundle(root, &bundle, &mut found);
    }
    Some(found)
}

fn docker_attributes(path: &Path) -> Option<Vec<(String, String)>> {
    docker::read(path.parent()?).map(|container| attributes_of(&container, "docker"))
}

/// Attributes of what a runtime says of a container.
fn attributes_of(container: &DockerContainer, runtime: &str) -> Vec<(String, String)> {
    let named = [
        ("container.id", container.id.as_str()),
        ("container.name", &container.name),
        ("container.image.name", &container.image),
        ("container.runtime", runtime),
    ];
    let named = named.iter().filter(|(_, value)| !value.is_empty());
    let mut found: Vec<(String, String)> =
        named.map(|(name, value)| attribute(name, value)).collect();
    let mut label_count = 0;
    for (name, value) in &container.labels {
        if let Some((_, own)) = POD_LABELS.iter().find(|(label, _)| label == name) {
            found.push(attribute(own, value));
        } else if !name.starts_with("annotation.")
            && !name.starts_with("io.kubernetes.")
            && label_count < LABELS_MAX
            && name.len() <= LABEL_BYTES_MAX
            && value.len() <= LABEL_BYTES_MAX
        {
            label_count += 1;
            found.push((format!("container.label.{name}"), value.clone()));
        }
    }
    found
}

/// Podman's names and image are in one list next to the directories of all containers.
fn podman_attributes(path: &Path, id: &str) -> Option<Vec<(String, String)>> {
    let list = path.ancestors().nth(3)?.join("containers.json");
    let mut container = DockerContainer { id: id.to_owned(), ..DockerContainer::default() };
    let bytes = weir_access::read(&list, LIST_LIMIT).unwrap_or_default();
    let all: Vec<Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Some(known) = all.iter().find(|known| known["id"] == id) {
        let metadata = known["metadata"].as_str().unwrap_or_default();
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let name = known["names"][0].as_str().or_else(|| metadata["name"].as_str());
        name.unwrap_or_default().clone_into(&mut container.name);
        metadata["image-name"].as_str().unwrap_or_default().clone_into(&mut container.image);
    }
    Some(attributes_of(&container, "podman"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        let found = container_attributes(Path::new(path));
        found.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    /// fluent-plugins-nursery/fluent-plugin-kubernetes_metadata_filter#58: names with dots and dashes,
    /// and parts that the kubelet has rotated.
    #[test]
    fn names_of_a_pod_are_in_the_path_of_its_log() {
        let pod = "k8s.namespace.name=kube-system\nk8s.pod.name=etcd-a.example\nk8s.pod.uid=1f6-2\n\
                   k8s.container.name=etcd\nk8s.container.restart_count=3\n";
        for file in ["3.log", "3.log.20261120-120000", "3.log.20261120-120000.gz"] {
            let path = format!("/var/log/pods/kube-system_etcd-a.example_1f6-2/etcd/{file}");
            assert_eq!(shown(&path), pod);
            assert_eq!(shown(&format!("/host{path}")), pod);
        }
        assert_eq!(shown("/var/log/pods/a_b/c/0.log"), "");
        assert_eq!(shown("/var/log/pods/a_b_c_d/c/0.log"), "");
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(
            shown(&format!("/var/log/containers/web-5d_shop_app-{id}.log")),
            format!(
                "k8s.namespace.name=shop\nk8s.pod.name=web-5d\nk8s.container.name=app\ncontainer.id={id}\n"
            )
        );
        assert_eq!(shown("/var/log/containers/other.log"), "");
        assert_eq!(shown("/var/log/nginx/access.log"), "");
        assert_eq!(shown("/"), "");
    }
}
