{{- /* SPDX-License-Identifier: BSD-2-Clause */ -}}
{{- define "tarry.name" -}}
{{- if contains "tarry" .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-tarry" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}
{{- define "tarry.labels" -}}
app.kubernetes.io/name: tarry
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "tarry.scheme" -}}
{{ if .Values.tls.secret }}https{{ else }}http{{ end }}
{{- end -}}
