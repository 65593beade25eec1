//! Containers of pods by their OCI bundles: the `config.json` that containerd, CRI-O and Podman write
//! for the program that starts a container.
//!
//! Sources: the OCI runtime specification (`config.md`, "Annotations"), containerd's
//! `pkg/cri/annotations`, CRI-O's `pkg/annotations`. A bundle exists as long as its container. The
//! surprising thing: containerd keeps the labels of a pod in a database that only it may open;
//! CRI-O writes them into the bundle of the pod's sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::container_names::is_id;
use crate::{below, glob};

/// Directories with one directory for each namespace of containerd, and in it one for each container.
const TASKS: [&str; 3] = [
    "/run/containerd/io.containerd.runtime.v2.task",
    "/run/k3s/containerd/io.containerd.runtime.v2.task",
    "/run/k0s/containerd/io.containerd.runtime.v2.task",
];
/// Directories of CRI-O and Podman with one directory for each container.
const OVERLAYS: [&str; 2] = [
    "/run/containers/storage/overlay-containers",
    "/var/lib/containers/storage/overlay-containers",
];
/// Namespace of Kubernetes in containerd.
const KUBERNETES: &str = "k8s.io";
/// Maximum bytes of a bundle's configuration, and bundles that are read for one log.
const FILE_LIMIT: u64 = 1 << 20;
const BUNDLES_MAX: usize = 1000;

/// Annotations of containerd, and the label of the kubelet with the same value.
const NAMESPACE: [&str; 2] = ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const POD: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const POD_UID: [&str; 2] = ["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];
const CONTAINER: [&str; 2] = ["io.kubernetes.cri.container-name", "io.kubernetes.container.name"];
const IMAGE: [&str; 2] = ["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"];
const NAME: [&str; 2] = ["nerdctl/name", "io.kubernetes.cri-o.Name"];

/// Labels of containers and pods in a bundle of CRI-O, as a JSON object.
const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";
const CRIO_SANDBOX: &str = "io.kubernetes.cri-o.SandboxID";

/// What a bundle says of its container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerBundle {
    pub(crate) id: String,
    /// Annotations, and labels where the runtime writes them.
    texts: BTreeMap<String, String>,
    /// Labels alone.
    labels: BTreeMap<String, String>,
}

/// A pod's container as its log's path names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodContainer<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) container: &'a str,
}

impl ContainerBundle {
    /// The bundle of the container with this id.
    pub(crate) fn of_id(root: &Path, (namespace, id): (&str, &str)) -> Option<Self> {
        if !is_id(id) {
            return None;
        }
        let tasks = TASKS.iter().map(|tasks| Path::new(tasks).join(namespace).join(id));
        let overlays = OVERLAYS.iter().map(|all| Path::new(all).join(id).join("userdata"));
        tasks.chain(overlays).find_map(|directory| read(root, &below(root, &directory), id))
    }

    /// The bundle of a running container of a pod.
    pub(crate) fn of_pod(root: &Path, wanted: PodContainer<'_>) -> Option<Self> {
        let tasks = TASKS.iter().map(|tasks| format!("{tasks}/{KUBERNETES}/*/config.json"));
        let overlays = OVERLAYS.iter().map(|all| format!("{all}/*/userdata/config.json"));
        let files =
            tasks.chain(overlays).flat_map(|files| glob::expand(&below(root, Path::new(&files))));
        files.take(BUNDLES_MAX).find_map(|file| {
            let directory = file.parent()?;
            let names = [directory, directory.parent()?];
            let id =
                names.iter().find_map(|path| path.file_name()?.to_str().filter(|id| is_id(id)))?;
            read(root, directory, id).filter(|bundle| bundle.is_of(wanted))
        })
    }

    fn is_of(&self, wanted: PodContainer<'_>) -> bool {
        self.text(NAMESPACE) == Some(wanted.namespace)
            && self.text(POD) == Some(wanted.pod)
            && self.text(CONTAINER) == Some(wanted.container)
            && self.text(POD_UID).is_none_or(|uid| uid == wanted.uid)
    }

    fn text(&self, names: [&str; 2]) -> Option<&str> {
        names.iter().find_map(|name| self.texts.get(*name)).map(String::as_str)
    }

    /// Name of the image.
    pub(crate) fn image(&self) -> Option<&str> {
        self.text(IMAGE)
    }

    /// Name of the container, unless a pod has it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.text(NAME)
    }

    /// `cri-o`, or `containerd`.
    pub(crate) fn runtime(&self) -> &'static str {
        if self.texts.keys().any(|name| name.starts_with("io.kubernetes.cri-o.")) {
            "cri-o"
        } else {
            "containerd"
        }
    }

    /// Labels of the pod, as far as the runtime writes them.
    pub(crate) fn pod_labels(&self, root: &Path) -> Vec<(String, String)> {
        let sandbox = self.texts.get(CRIO_SANDBOX);
        let sandbox = sandbox.and_then(|id| Self::of_id(root, (KUBERNETES, id)));
        let labels = sandbox.map(|sandbox| sandbox.labels).unwrap_or_default();
        labels.into_iter().filter(|(name, _)| !name.starts_with("io.kubernetes.")).collect()
    }
}

/// Reads a bundle; a link that leads out of the root is not followed.
fn read(root: &Path, directory: &Path, id: &str) -> Option<ContainerBundle> {
    let file = directory.join("config.json");
    if !is_within(root, &file) {
        return None;
    }
    let bytes = weir_access::read(&file, FILE_LIMIT).ok()?;
    let config: Value = serde_json::from_slice(&bytes).ok()?;
    let mut texts = texts(&config["annotations"]);
    let labels: Value = texts
        .get(CRIO_LABELS)
        .and_then(|labels| serde_json::from_str(labels).ok())
        .unwrap_or_default();
    let labels = self::texts(&labels);
    texts.extend(labels.clone());
    Some(ContainerBundle { id: id.to_owned(), texts, labels })
}

fn texts(object: &Value) -> BTreeMap<String, String> {
    let members = object.as_object().into_iter().flatten();
    members.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect()
}

fn is_within(root: &Path, file: &Path) -> bool {
    let [root, file]: [Option<PathBuf>; 2] = [root, file].map(|path| path.canonicalize().ok());
    root.zip(file).is_some_and(|(root, file)| file.starts_with(root))
}
