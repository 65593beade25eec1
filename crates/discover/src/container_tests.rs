//! Containers as their runtimes leave them on disk and in `/proc`.

use std::os::unix::fs::symlink;

use expect_test::{Expect, expect};

use super::*;

/// A host below a temporary directory.
struct ContainerHost(tempfile::TempDir);

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

impl ContainerHost {
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

    /// A container of Docker with this log driver.
    fn docker(&self, digit: char, [driver, options]: [&str; 2]) {
        let directory = format!("/var/lib/docker/containers/{}", id(digit));
        let config = format!(
            r#"{{"ID":"{}","Name":"/web{digit}","State":{{"Running":true}},"Config":{{"Image":"nginx:1.29","Labels":{{"com.docker.compose.service":"web","annotation.x":"y","io.kubernetes.pod.name":"pod-1","io.kubernetes.sandbox.id":"z"}}}}}}"#,
            id(digit)
        );
        self.file(&format!("{directory}/config.v2.json"), &config);
        let logging = format!(r#"{{"LogConfig":{{"Type":"{driver}","Config":{{{options}}}}}}}"#);
        self.file(&format!("{directory}/hostconfig.json"), &logging);
    }

    fn process(&self, number: u32, (name, command): (&str, &str), cgroup: &str, output: &str) {
        let directory = format!("/proc/{number}");
        self.file(&format!("{directory}/comm"), &format!("{name}\n"));
        self.file(&format!("{directory}/cmdline"), &command.replace(' ', "\0"));
        self.file(&format!("{directory}/cgroup"), &format!("0::{cgroup}\n"));
        std::fs::create_dir_all(self.path(&format!("{directory}/fd"))).unwrap();
        symlink(output, self.path(&format!("{directory}/fd/1"))).unwrap();
    }

    fn attributes(&self, path: &str) -> String {
        let found = container_attributes(&self.path(path));
        found.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    #[track_caller]
    fn check(&self, expected: Expect) {
        let found = discover(self.0.path());
        let mut lines = Vec::new();
        for source in &found.sources {
            let path = source.path.strip_prefix(self.0.path()).unwrap().display();
            lines.push(format!("/{path} {} ({})", source.format.name(), source.found_in));
        }
        lines.extend(
            found.problems.iter().map(|problem| format!("! {}; {}", problem.message, problem.hint)),
        );
        expected.assert_eq(&(lines.join("\n") + "\n"));
    }
}

#[test]
fn files_of_every_runtime_are_found_by_globs() {
    let host = ContainerHost::new();
    host.file("/var/log/pods/shop_web_1-2/app/0.log", "");
    host.file("/var/log/containers/x.log", "");
    host.docker('a', ["json-file", ""]);
    host.file(
        &format!("/var/lib/nerdctl/1935db59/containers/default/{0}/{0}-json.log", id('b')),
        "",
    );
    let file =
        format!("/var/lib/containers/storage/overlay-containers/{}/userdata/ctr.log", id('c'));
    host.file(&file, "");
    let podman = format!("conmon --api-version 1 -c {} -n db -l k8s-file:{file} --syslog", id('c'));
    host.process(7, ("conmon", &podman), "/machine.slice", "/dev/null");
    let crio = format!("conmon -c {} -l /var/log/pods/shop_web_1-2/app/0.log", id('d'));
    host.process(8, ("conmon", &crio), "/crio.slice", "/dev/null");
    for (number, digit) in [(9, 'a'), (10, 'b'), (11, 'c'), (12, 'd')] {
        let cgroup = format!("/system.slice/docker-{}.scope", id(digit));
        host.process(number, ("app", "app"), &cgroup, "pipe:[1]");
    }
    let pod = format!("/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{}.scope", id('e'));
    host.process(13, ("app", "app"), &pod, "pipe:[1]");
    host.check(expect![[r#"
        /var/log/pods/*/*/*.log auto (/var/log/pods)
        /var/lib/docker/containers/*/*-json.log auto (/var/lib/docker/containers)
        /var/lib/nerdctl/*/containers/*/*/*-json.log auto (/var/lib/nerdctl)
        /var/lib/containers/storage/overlay-containers/cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc/userdata/ctr.log auto (conmon of db)
    "#]]);
    let found = discover(host.0.path());
    let files: usize = found.sources.iter().map(|source| glob::expand(&source.path).len()).sum();
    assert_eq!(files, 3, "the container of Docker has written nothing yet");
}

/// elastic/beats#24531 (driver `local`), elastic/beats#17616 and podman-container-tools/podman#19292
/// (driver `journald`), podman-container-tools/podman#26910 (no journal).
#[test]
fn containers_whose_output_no_file_has_are_problems_with_a_hint() {
    let host = ContainerHost::new();
    host.docker('a', ["local", ""]);
    host.docker('b', ["journald", ""]);
    host.docker('c', ["none", ""]);
    host.docker('d', ["syslog", r#""syslog-address":"udp://192.0.2.1:514""#]);
    host.docker('e', ["fluentd", ""]);
    host.docker('f', ["awslogs", ""]);
    host.docker('0', ["gelf", ""]);
    let podman = format!("conmon -c {} -n db -l journald", id('1'));
    host.process(7, ("conmon", &podman), "/machine.slice", "/dev/null");
    host.check(expect![[r#"
        /var/lib/docker/containers/*/*-json.log auto (/var/lib/docker/containers)
        ! cannot read the output of container `webc`: the log driver `none` discards it; create the containers with `--log-driver json-file`
        ! cannot read the output of containers `webb`, `db`: the log driver is `journald`, and no journal is readable here; install `journalctl` and let weir read `/var/log/journal`, or use the driver `json-file`
        ! cannot read the output of container `weba`: the log driver `local` writes a format that only Docker reads; create the containers with `--log-driver json-file`
        ! cannot read the output of container `webd`: the log driver `syslog` sends it to another host; set `syslog-address` to a port of `intake.syslog_udp`
        ! cannot read the output of container `webe`: the log driver `fluentd` sends it elsewhere; set `fluentd-address` to a port of `intake.fluent`
        ! cannot read the output of container `web0`: the log driver `gelf` sends it elsewhere; set `gelf-address` to a port of `intake.gelf_udp`
        ! cannot read the output of container `webf`: the log driver sends it elsewhere; create the containers with `--log-driver json-file`
    "#]]);
    std::fs::create_dir_all(host.path("/var/log/journal")).unwrap();
    host.file("/usr/bin/journalctl", "");
    let found = discover(host.0.path());
    assert!(!found.problems.iter().any(|problem| problem.message.contains("journald")));
}

/// A local syslog has what the driver `syslog` sends; a container that does not run is no problem.
#[test]
fn output_that_is_found_elsewhere_is_no_problem() {
    let host = ContainerHost::new();
    host.file("/var/log/syslog", "");
    host.docker('a', ["syslog", ""]);
    host.docker('b', ["none", ""]);
    let stopped = format!("/var/lib/docker/containers/{}/config.v2.json", id('b'));
    host.file(&stopped, &format!(r#"{{"ID":"{}","Name":"/old","State":{{}}}}"#, id('b')));
    host.docker('c', ["json-file", ""]);
    host.file(&format!("/var/lib/docker/containers/{}/hostconfig.json", id('c')), "torn {");
    host.check(expect![[r#"
        /var/log/syslog syslog (/var/log/syslog)
        /var/lib/docker/containers/*/*-json.log auto (/var/lib/docker/containers)
    "#]]);
}

/// kubernetes/kubernetes#13313 and rancher/rancher#13304: data of Docker in another directory.
#[test]
fn configured_directories_are_used() {
    let host = ContainerHost::new();
    host.file("/etc/docker/daemon.json", r#"{"data-root":"/app/docker"}"#);
    std::fs::create_dir_all(host.path("/app/docker/containers")).unwrap();
    host.file(
        "/var/lib/kubelet/config.yaml",
        "kind: KubeletConfiguration\npodLogsDir: \"/data/pods\"\n",
    );
    std::fs::create_dir_all(host.path("/data/pods")).unwrap();
    std::fs::create_dir_all(host.path("/var/log/containers")).unwrap();
    host.check(expect![[r#"
        /data/pods/*/*/*.log auto (/data/pods)
        /app/docker/containers/*/*-json.log auto (/app/docker/containers)
    "#]]);
}

#[test]
fn running_containers_of_unknown_runtimes_are_reported() {
    let host = ContainerHost::new();
    for (number, (digit, output)) in
        (20..).zip([('a', "pipe:[1]"), ('b', "/dev/null"), ('c', "/srv/out"), ('d', "socket:[2]")])
    {
        let cgroup = format!("/ctr/{}", id(digit));
        host.process(number, ("app", "app"), &cgroup, output);
        host.process(number + 100, ("worker", "worker"), &cgroup, output);
    }
    let pod = format!("/kubepods/burstable/pod1-2/{}", id('e'));
    host.process(30, ("app", "app"), &pod, "pipe:[1]");
    host.process(31, ("app", "app"), "/system.slice/nginx.service", "pipe:[1]");
    host.check(expect![[r#"
        ! cannot read the output of container `aaaaaaaaaaaa (app, process 20)`: it goes through a pipe, and no runtime that is known here writes a file; list the file that its supervisor writes in `collect.tail`
        ! cannot read the output of container `bbbbbbbbbbbb (app, process 21)`: it goes to `/dev/null`; let the program write to its standard output, or list its files in `collect.tail`
        ! cannot read the output of container `eeeeeeeeeeee (app, process 30)`: neither `/var/log/pods` nor `/var/log/containers` is there; let weir read the host's `/var/log/pods`
    "#]]);
}

#[test]
fn rows_get_the_names_that_the_runtimes_have_written() {
    let host = ContainerHost::new();
    host.docker('a', ["json-file", ""]);
    let docker = host.attributes(&format!("/var/lib/docker/containers/{0}/{0}-json.log", id('a')));
    let rotated =
        host.attributes(&format!("/var/lib/docker/containers/{0}/{0}-json.log.1", id('a')));
    assert_eq!(docker, rotated);
    expect![[r#"
        container.id=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        container.name=weba
        container.image.name=nginx:1.29
        container.runtime=docker
        container.label.com.docker.compose.service=web
        k8s.pod.name=pod-1
    "#]]
    .assert_eq(&docker);
    let storage = "/var/lib/containers/storage/overlay-containers";
    let list = format!(
        r#"[{{"id":"x"}},{{"id":"{}","names":["db"],"metadata":"{{\"image-name\":\"docker.io/library/redis:8\",\"name\":\"db\"}}"}}]"#,
        id('b')
    );
    host.file(&format!("{storage}/containers.json"), &list);
    expect![[r#"
        container.id=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        container.name=db
        container.image.name=docker.io/library/redis:8
        container.runtime=podman
    "#]]
    .assert_eq(&host.attributes(&format!("{storage}/{}/userdata/ctr.log", id('b'))));
    let unknown = host.attributes(&format!("/var/lib/docker/containers/{0}/{0}-json.log", id('f')));
    assert_eq!(unknown, "");
}
