{{- define "cooperator.name" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" .Release.Name) }}
{{- fail (printf "the release is called %q, but the name of a Service begins with a letter and has no dots: choose another name" .Release.Name) }}
{{- end }}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Of roles, which lie in the cluster or in other releases' namespaces. No namespace has a colon in its name. */}}
{{- define "cooperator.roleName" -}}
{{ printf "%s:%s" .Release.Namespace (include "cooperator.name" .) }}
{{- end }}

{{- /* The namespaces that are served, as JSON; none: all. */}}
{{- define "cooperator.namespaces" -}}
{{ ternary list (default (list .Release.Namespace) .Values.namespaces) .Values.clusterWide | toJson }}
{{- end }}

{{- define "cooperator.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "cooperator.name" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- /* (repository, tag, digest, the chart's appVersion) */}}
{{- define "cooperator.image" -}}
{{- $repository := index . 0 }}{{ $tag := index . 1 }}{{ $digest := index . 2 }}
{{- if $digest }}{{ printf "%s@%s" $repository $digest }}{{ else }}{{ printf "%s:%s" $repository (default (index . 3) $tag) }}{{ end }}
{{- end }}

{{- define "cooperator.operatorImage" -}}
{{ include "cooperator.image" (list .Values.image.repository .Values.image.tag .Values.image.digest .Chart.AppVersion) }}
{{- end }}

{{- /* The Secret with the certificate of leaders and the REST API; empty: they serve http. */}}
{{- define "cooperator.tlsSecret" -}}
{{- if .Values.tls.secretName }}{{ .Values.tls.secretName }}{{ else if .Values.tls.certManager.issuerRef }}{{ printf "%s-tls" (include "cooperator.name" .) }}{{ end }}
{{- end }}

{{- define "cooperator.podSecurityContext" -}}
{{ toYaml (merge (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) .Values.podSecurityContext) }}
{{- end }}

{{- define "cooperator.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "cooperator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "cooperator.labels" -}}
{{ include "cooperator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "cooperator.metadata" -}}
name: {{ include "cooperator.name" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "cooperator.labels" . | nindent 2 }}
{{- end }}

{{- define "cooperator.subject" -}}
- kind: ServiceAccount
  name: {{ include "cooperator.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* A role with the rules of some files, and its binding to the operator: in a namespace, or for the cluster. */}}
{{- define "cooperator.grant" }}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "cooperator.labels" .root | nindent 4 }}
rules:
{{- range .files }}
{{ $.root.Files.Get (printf "files/%s-rules.yaml" .) | trim }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "cooperator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  {{- include "cooperator.subject" .root | nindent 2 }}
{{- end }}

{{- /* Objects of the quick start: (root, component) */}}
{{- define "cooperator.quickstartMetadata" -}}
{{- $root := index . 0 -}}
name: {{ include "cooperator.name" $root }}-{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels: {{- include "cooperator.quickstartLabels" . | nindent 2 }}
{{- end }}

{{- define "cooperator.quickstartLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "cooperator.quickstartKafka" -}}
{{- default (printf "%s-kafka.%s.svc" (include "cooperator.name" .) .Release.Namespace) .Values.quickstart.kafka.clusterIP -}}
{{- end }}

{{- define "cooperator.quickstartBrokers" -}}
{{- $host := include "cooperator.quickstartKafka" . -}}
{{ ternary (printf "[%s]" $host) $host (contains ":" $host) }}:9092
{{- end }}

{{- /* The spec of a pod that runs a script of files/ in the operator's image: (root, script, list of arguments) */}}
{{- define "cooperator.script" -}}
{{- $root := index . 0 -}}
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "cooperator.podSecurityContext" $root | nindent 2 }}
containers:
  - name: {{ index . 1 }}
    image: {{ include "cooperator.operatorImage" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [python, -c]
    args:
      - |
        {{- $root.Files.Get (printf "files/quickstart-%s.py" (index . 1)) | trim | nindent 8 }}
      {{- range index . 2 }}
      - {{ . | quote }}
      {{- end }}
    resources:
      requests: {cpu: 10m, memory: 64Mi}
      limits: {memory: 256Mi}
    securityContext: {{- include "cooperator.containerSecurityContext" $root | nindent 6 }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Worker and Connectors of examples/quickstart as JSON, Connectors first. */}}
{{- define "cooperator.quickstartObjects" -}}
{{- $objects := list }}
{{- range $path, $_ := .Files.Glob "files/quickstart/*.yaml" }}
{{- range regexSplit "(?m)^---$" ($.Files.Get $path) -1 }}
{{- $objects = append $objects (fromYaml .) }}
{{- end }}
{{- end }}
{{- toJson $objects }}
{{- end }}
