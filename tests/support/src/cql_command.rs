//! The command that runs a node of Cassandra.

use std::path::Path;
use std::process::Command;

/// The `--add-exports` options that Cassandra needs on Java 17, each with `=ALL-UNNAMED`.
const EXPORTS: &str = "java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/java.lang.ref \
    java.base/sun.nio.ch java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry \
    java.rmi/sun.rmi.server java.sql/java.sql jdk.unsupported/sun.misc jdk.compiler/com.sun.tools.javac.file \
    jdk.attach/sun.tools.attach";
/// The `--add-opens` options that Cassandra needs on Java 17.
const OPENS: &str = "java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.io \
    java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic \
    java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect \
    java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar java.base/sun.nio.ch \
    jdk.management/com.sun.management.internal jdk.compiler/com.sun.tools.javac";
/// Options for a small and quick server, without features that a test machine does not need. Each
/// keyspace of the service has thirty tables, and each flush of one takes megabytes: 256 MB are too
/// little for a dozen keyspaces.
const OPTIONS: &str = "-XX:+ExitOnOutOfMemoryError -XX:MaxDirectMemorySize=256M \
    -XX:+PerfDisableSharedMem -Djdk.attach.allowAttachSelf=true -Dio.netty.tryReflectionSetAccessible=true \
    -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=1000 -Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.skip_wait_for_gossip_to_settle=0 \
    -Dcassandra.consistent.rangemovement=false";

/// Options for a server whose tables come and go with the tests, and that no test kills: a changed
/// table stays in memory instead of being flushed, and no JMX beans are registered. This halves the
/// processor time of a new keyspace. A killed node would start without the tables that it had not
/// flushed.
const SHARED: &str = "-Dcassandra.test.flush_local_schema_changes=false \
    -Dorg.apache.cassandra.disable_mbean_registration=true";

/// The memory and the compiler of a server for tests.
const SMALL: &str = "-Xms256M -Xmx2048M -XX:+UseSerialGC -XX:TieredStopAtLevel=1";
/// The memory and the compiler of a server for measurements.
const AS_IN_OPERATION: &str = "-Xms1536M -Xmx1536M -XX:+UseG1GC -XX:MaxGCPauseMillis=100";

/// The shell that is the server's parent: it writes the process id, obeys commands, and kills the
/// server at the pipe's end.
const KEEPER: &str = r#"folder=$1; shift
begin() { "$@" >>"$folder/log" 2>&1 </dev/null & server=$!; echo "$server" >"$folder/pid"; }
begin "$@"
while read -r word; do
  case $word in
    kill) kill -9 "$server"; wait "$server" 2>/dev/null; rm "$folder/pid" ;;
    start) begin "$@" ;;
  esac
done
kill -9 "$server" 2>/dev/null
wait "$server" 2>/dev/null
rm -rf "$folder""#;

/// The tests that use a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// All tests of the binary use the server, and none of them kills it.
    Shared,
    /// One test uses the server, and may kill it.
    Dedicated,
}

impl Users {
    fn options(self) -> &'static str {
        match self {
            Self::Shared => SHARED,
            Self::Dedicated => "",
        }
    }
}

/// Returns the command that runs a node with its data in `folder`, under a shell that obeys words
/// on its standard input.
pub(crate) fn node_command(
    folder: &Path,
    libraries: &Path,
    users: Users,
    is_measured: bool,
) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "sh"]).arg(folder).arg("java");
    for (option, packages) in [("--add-exports", EXPORTS), ("--add-opens", OPENS)] {
        for package in packages.split_whitespace() {
            command.arg(option).arg(format!("{package}=ALL-UNNAMED"));
        }
    }
    let size = if is_measured { AS_IN_OPERATION } else { SMALL };
    let shown = folder.display();
    command
        .args(OPTIONS.split_whitespace())
        .args(size.split_whitespace())
        .args(users.options().split_whitespace())
        .arg(format!("-Dcassandra.config=file://{shown}/cassandra.yaml"))
        .arg(format!("-Dcassandra.storagedir={shown}"))
        .arg(format!(
            "-Dcassandra-rackdc.properties=file://{shown}/cassandra-rackdc.properties"
        ))
        .arg(format!("-Dlogback.configurationFile={shown}/logback.xml"))
        .arg("-cp")
        .arg(format!("{}/*", libraries.display()))
        .arg("org.apache.cassandra.service.CassandraDaemon");
    command
}
