{{- /* Labels of every object. Arguments: the root, and the component. */ -}}
{{- define "sluice.labels" -}}
{{- $root := index . 0 -}}
{{ include "sluice.podLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Those of pods: without a version, so that an upgrade restarts only what it changes. */ -}}
{{- define "sluice.podLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* Where pods run, and what pulls their images. Arguments: the root, and the values of the component. */ -}}
{{- define "sluice.pod" -}}
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- range $field := list "priorityClassName" "tolerations" "nodeSelector" }}
{{- with index $ 1 $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Variables by which git finds the keys of a Secret. It only reads: a volume of a Secret cannot be written. */ -}}
{{- define "sluice.git" -}}
- { name: GIT_CONFIG_COUNT, value: "1" }
- { name: GIT_CONFIG_KEY_0, value: credential.helper }
- { name: GIT_CONFIG_VALUE_0, value: '!f() { [ "$1" != get ] || git credential-store --file=/credentials/.git-credentials get; }; f' }
- { name: GIT_SSH_COMMAND, value: ssh -i /credentials/ssh-privatekey -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile=/credentials/known_hosts }
{{- end }}

{{- /* `source` or `receipts.push` of sluiced.yaml. Arguments: the root, the value, the name of a Secret, and its folder. */ -}}
{{- define "sluice.remote" -}}
{{- $remote := deepCopy (index . 1) -}}
{{- $folder := printf "/credentials/%s" (index . 3) -}}
{{- if index . 2 -}}
{{- $isSsh := dig "git" "url" "" $remote | hasPrefix "ssh:" -}}
{{- $_ := set $remote "credentials" (dict "file" (printf "%s/%s" $folder (ternary "ssh-privatekey" "credentials" $isSsh))) -}}
{{- if $isSsh -}}
{{- $_ := set $remote "git" (merge $remote.git (dict "knownHosts" (printf "%s/known_hosts" $folder))) -}}
{{- end -}}
{{- end -}}
{{- if (index . 0).Values.fetch.caFile -}}
{{- $_ := set $remote "caFile" "/etc/sluice/ca.crt" -}}
{{- end -}}
{{- toYaml $remote -}}
{{- end }}

{{- /* Whether each node follows the API server: for all that it serves, or for the endpoints of signed releases. Empty: it does not. */ -}}
{{- define "sluice.follows" -}}
{{- if or (eq .Values.delivery "node") .Values.sluiced.live.enabled }}true{{ end -}}
{{- end }}

{{- /* What the standard `restricted` of Kubernetes asks of a container, and a root file system that it cannot write. */ -}}
{{- define "sluice.restricted" -}}
{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
{{- end }}

{{- /* Variables of each container that follows the API server. */ -}}
{{- define "sluice.followEnv" -}}
{{ with .Values.apiServer.host -}}
# An own address of the API server: that of its Service answers once a node has the rules that this makes.
- { name: KUBERNETES_SERVICE_HOST, value: {{ . | quote }} }
- { name: KUBERNETES_SERVICE_PORT, value: {{ $.Values.apiServer.port | quote }} }
{{ end -}}
# What was freed goes back to the system: 40 MB at 10,000 Services.
- { name: MALLOC_ARENA_MAX, value: "1" }
- { name: MALLOC_MMAP_THRESHOLD_, value: "4096" }
- { name: MALLOC_MMAP_MAX_, value: "16384" }
- { name: MALLOC_TRIM_THRESHOLD_, value: "65536" }
{{- end }}

{{- /* Variables of the pods of `sluice watch`. */ -}}
{{- define "sluice.watchEnv" -}}
- { name: HOME, value: /work }
{{- include "sluice.followEnv" . | nindent 0 }}
{{- if not .Values.watch.serve.secret }}
- { name: GIT_AUTHOR_NAME, value: {{ .Values.watch.author.name | quote }} }
- { name: GIT_AUTHOR_EMAIL, value: {{ .Values.watch.author.email | quote }} }
- { name: GIT_COMMITTER_NAME, value: {{ .Values.watch.author.name | quote }} }
- { name: GIT_COMMITTER_EMAIL, value: {{ .Values.watch.author.email | quote }} }
{{- if .Values.watch.credentials }}
{{- include "sluice.git" . | nindent 0 }}
{{- else }}
- { name: GIT_CONFIG_COUNT, value: "1" }
- { name: GIT_CONFIG_KEY_0, value: credential.helper }
- { name: GIT_CONFIG_VALUE_0, value: store }
{{- end }}
{{- end }}
{{- with .Values.watch.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- /* What these pods see of their volumes. */ -}}
{{- define "sluice.watchMounts" -}}
- { name: work, mountPath: /work }
{{- if and .Values.watch.credentials (not .Values.watch.serve.secret) }}
- { name: credentials, mountPath: /credentials, readOnly: true }
{{- end }}
{{- if .Values.watch.serve.secret }}
- { name: secret, mountPath: /secret, readOnly: true }
- { name: config, mountPath: /config, readOnly: true }
{{- end }}
{{- with .Values.watch.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
