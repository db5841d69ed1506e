"""The runners' pods, as a Workspace says them: how many, what image, and what a person may add to the pod."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from turnkeeper.settings.workspace_parts import (
    DNS_LABEL,
    Annotations,
    Key,
    Labels,
    LabelValue,
    ObjectName,
    Part,
    Quantity,
    SecretKey,
    by_key,
    exactly_one,
    rules,
)

OWN_VOLUMES = "turnkeeper-"
"""How the names of the runner's own volumes begin."""

OWN_FOLDER = "/var/lib/turnkeeper"
OWN_FOLDERS = (OWN_FOLDER, "/etc/turnkeeper", "/var/run/secrets", "/scratch")
"""Where the runner's own volumes are mounted."""


class ConfigMapKey(Part):
    """One key of a ConfigMap in the Workspace's namespace."""

    name: ObjectName = Field(description="The ConfigMap's name.")
    key: Key = Field(description="The key in the ConfigMap.")


class VariableSource(Part):
    """Where a variable's value is: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=rules(exactly_one(("secretKeyRef", "configMapKeyRef"))))

    secret_key_ref: SecretKey | None = Field(None, description="In a Secret.")
    config_map_key_ref: ConfigMapKey | None = Field(None, description="In a ConfigMap.")


class Variable(Part):
    """A variable of the runner's environment, for its handler."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!(has(self.value) && has(self.valueFrom))", "a variable has a value or valueFrom, not both"),
            ("!self.name.startsWith('TURNKEEPER_')", "TURNKEEPER_… is set from the Workspace's own fields"),
        )
    )

    name: str = Field(min_length=1, max_length=253, pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="Its name.")
    value: Annotated[str, Field(max_length=32_768)] | None = Field(None, description="Its value; empty if not set.")
    value_from: VariableSource | None = Field(None, description="Where its value is instead.")


class Resources(Part):
    """What each runner asks for and may take."""

    requests: dict[str, Quantity] = Field(
        {"cpu": "100m", "memory": "128Mi"}, max_length=20, description="What the scheduler keeps free for it."
    )
    limits: dict[str, Quantity] = Field({}, max_length=20, description="What it may take.")


class Toleration(Part):
    """A taint that runners put up with."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.key) || (has(self.operator) && self.operator == 'Exists')", "without a key, operator is Exists"),
            ("!(has(self.operator) && self.operator == 'Exists' && has(self.value))", "Exists goes with no value"),
            (
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds goes with effect NoExecute only",
            ),
        )
    )

    key: Annotated[str, Field(min_length=1, max_length=317)] | None = Field(None, description="The taint's key.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Equal if not set.")
    value: LabelValue | None = Field(None, description="The taint's value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(None, description="All if not set.")
    toleration_seconds: int | None = Field(None, ge=0, le=86_400, description="For how long. For ever if not set.")


class Named(Part):
    """Another object in the Workspace's namespace."""

    name: ObjectName = Field(description="Its name.")


class SecretVolume(Part):
    """A Secret's keys as files."""

    secret_name: ObjectName = Field(description="The Secret's name.")


class ClaimVolume(Part):
    """A volume that a PersistentVolumeClaim holds."""

    claim_name: ObjectName = Field(description="The claim's name.")
    read_only: bool = Field(default=False, description="Whether it can be written.")


class EmptyDirVolume(Part):
    """A folder that lives as long as the pod."""

    size_limit: Quantity | None = Field(None, description="The most that it may hold.")


class Volume(Part):
    """A volume for the handler."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(("secret", "configMap", "persistentVolumeClaim", "emptyDir")),
            (f"!self.name.startsWith('{OWN_VOLUMES}')", f"names that begin with {OWN_VOLUMES} are the runner's own"),
        )
    )

    name: str = Field(min_length=1, max_length=63, pattern=DNS_LABEL, description="Its name, for volumeMounts.")
    secret: SecretVolume | None = Field(None, description="A Secret's keys as files.")
    config_map: Named | None = Field(None, description="A ConfigMap's keys as files.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A volume that a claim holds.")
    empty_dir: EmptyDirVolume | None = Field(None, description="An empty folder.")


class VolumeMount(Part):
    """Where a volume is found in the runner's container."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                (
                    f"self.mountPath != '{folder}' && !self.mountPath.startsWith('{folder}/')",
                    f"{folder} is the runner's own",
                )
                for folder in OWN_FOLDERS
            )
        )
    )

    name: str = Field(min_length=1, max_length=63, pattern=DNS_LABEL, description="One of the volumes.")
    mount_path: str = Field(
        min_length=2, max_length=1024, pattern="^/[^:]+$", description="The folder, such as /srv/agent."
    )
    sub_path: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[^/]")] | None = Field(
        None, description="A part of the volume."
    )
    read_only: bool = Field(default=False, description="Whether it can be written.")


class PodTemplate(Part):
    """What is added to the runners' pods. What the runner itself needs stays as it is."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                (
                    "!has(self.volumeMounts) || self.volumeMounts.all(mount,"
                    " has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))"
                ),
                "each of volumeMounts names one of volumes",
            )
        )
    )

    labels: Labels = Field({}, description="Labels of the pods.")
    annotations: Annotations = Field({}, description="Annotations of the pods.")
    node_selector: Labels = Field({}, description="The nodes that they may run on, by their labels.")
    tolerations: list[Toleration] = Field([], max_length=50, description="The taints that they put up with.")
    priority_class_name: ObjectName | None = Field(None, description="Their priority.")
    runtime_class_name: ObjectName | None = Field(None, description="Their runtime.")
    image_pull_secrets: list[Named] = Field(
        [], max_length=20, description="Secrets to pull the image with.", json_schema_extra=by_key("name")
    )
    volumes: list[Volume] = Field(
        [], max_length=50, description="Volumes for the handler.", json_schema_extra=by_key("name")
    )
    volume_mounts: list[VolumeMount] = Field(
        [], max_length=50, description="Where they are found.", json_schema_extra=by_key("mountPath")
    )


class RunnerSpec(Part):
    """The runners: the pods that take this Workspace's turns."""

    replicas: int = Field(1, ge=0, le=1000, description="How many runners. SQLite allows one.")
    image: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[^\\s]+$")] | None = Field(
        None, description="The image with turnkeeper and the handler. The controller's own if not set."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the image is pulled. As Kubernetes has it if not set."
    )
    max_turns: int = Field(32, ge=1, le=10_000, description="Turns that one runner takes at once.")
    peers: bool = Field(
        default=True, description="Whether each holds a connection to the others, to notice a death at once."
    )
    drain_seconds: int = Field(
        20, ge=0, le=3600, description="How long turns may go on as a runner stops, before they are interrupted."
    )
    resources: Resources = Field(Resources(), description="What each runner asks for and may take.")
    env: list[Variable] = Field(
        [], max_length=200, description="Variables for the handler.", json_schema_extra=by_key("name")
    )
    pod_template: PodTemplate = Field(PodTemplate(), description="What is added to the runners' pods.")
